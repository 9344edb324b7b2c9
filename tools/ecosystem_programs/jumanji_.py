"""jumanji: environments for reinforcement learning."""

import jax
import jumanji


def _play(name, steps):
    env = jumanji.make(name)

    @jax.jit
    def episode(key):
        state, timestep = env.reset(key)

        def step(state, key):
            action = jax.random.randint(key, env.action_spec.shape, 0, env.action_spec.num_values)
            state, timestep = env.step(state, action)
            return state, (timestep.reward, timestep.discount)

        _, found = jax.lax.scan(step, state, jax.random.split(key, steps))
        return timestep.observation, found

    return lambda: episode(jax.random.key(0))


def game_2048():
    return _play("Game2048-v1", 12)


def snake():
    return _play("Snake-v1", 12)


def many_mazes():
    env = jumanji.make("Maze-v0")
    reset = jax.jit(jax.vmap(lambda key: env.reset(key)[1].observation))
    return lambda: reset(jax.random.split(jax.random.key(1), 3))
