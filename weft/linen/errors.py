"""What goes wrong in modules, by the class that flax raises there; the words are weft's.

Every message names the module or variable, says what was wrong, and what to write instead.
"""

from collections.abc import Iterable
from typing import Any


class FlaxError(Exception):
    """Any error about the use of modules and their variables."""


class LazyInitError(FlaxError):
    """A variable depends on an input of which only the shape is known."""

    def __init__(self, what: Any):
        super().__init__(
            f"lazy_init cannot compute {what}: they depend on an argument that was given as a "
            "ShapeDtypeStruct. Pass that argument as an array"
        )


class InvalidRngError(FlaxError):
    """A stream of random keys is missing, or isn't a key."""


class ApplyScopeInvalidVariablesTypeError(FlaxError):
    """The variables given to ``apply`` are no dictionary of dictionaries."""

    def __init__(self, found: str = ""):
        super().__init__(
            "variables must be a dictionary of collections, each a dictionary with string keys, "
            f"such as {{'params': {{...}}}}{found}"
        )


class ApplyScopeInvalidVariablesStructureError(FlaxError):
    """The variables given to ``apply`` have a 'params' inside of 'params'."""

    def __init__(self, variables: Any = None):
        super().__init__(
            "variables have 'params' twice, {'params': {'params': ...}}: init returned the outer "
            "dictionary already. Pass what init returned, or wrap only its ['params'] part"
        )


class ScopeParamNotFoundError(FlaxError):
    """A parameter is missing from the given variables."""

    def __init__(self, param_name: str, scope_path: str, present: Any = ()):
        there = ", ".join(map(repr, sorted(present))) or "nothing"
        super().__init__(
            f"parameter {param_name!r} of {scope_path!r} is not in the given variables; this "
            f"part of 'params' has {there}. Were they made by init of the same module?"
        )


class ScopeCollectionNotFound(FlaxError):
    """A variable was asked for in a collection that was not given."""

    def __init__(self, col_name: str, var_name: str, scope_path: str, lifted: str = ""):
        text = (
            f"{scope_path!r} needs {var_name!r} of the collection {col_name!r}, which is empty or "
            f"missing in the given variables. Pass {{{col_name!r}: ...}} to apply"
        )
        if col_name != "params":
            text += f", or mutable=[{col_name!r}] to make it anew"
        if lifted:
            text += f"; and nn.{lifted} passes on only the collections that it is told of"
        super().__init__(text)


class ScopeParamShapeError(FlaxError):
    """A given parameter has a shape other than the module makes."""

    def __init__(self, param_name: str, scope_path: str, value_shape: Any, init_shape: Any):
        super().__init__(
            f"parameter {param_name!r} of {scope_path!r} has the shape {tuple(value_shape)}, but "
            f"the module needs {tuple(init_shape)}: do the inputs, or the module's fields, differ "
            "from those init was called with?"
        )


class ScopeParamDtypeError(FlaxError):
    """A given parameter has another kind of dtype than the module makes."""

    def __init__(self, param_name: str, scope_path: str, found: str, wanted: str):
        super().__init__(
            f"parameter {param_name!r} of {scope_path!r} is {found}, but the module needs {wanted} "
            "values: convert it, for example with weft.tree.map and astype"
        )


class ScopeVariableNotFoundError(FlaxError):
    """A variable is missing, and its collection may not be written."""

    def __init__(self, name: str, col: str, scope_path: str):
        super().__init__(
            f"variable {name!r} of the collection {col!r} does not exist in {scope_path!r}; it is "
            f"made where the collection is mutable: pass mutable=[{col!r}] to apply"
        )


class InvalidCheckpointError(FlaxError):
    """A folder has a checkpoint of this step, or of a later one."""

    def __init__(self, path: Any, step: Any):
        super().__init__(
            f"{path} would not be the last checkpoint: there is one of step {step} or later; pass "
            "overwrite=True to replace it and remove later ones"
        )


class InvalidFilterError(FlaxError):
    """A filter of collections is of a type that selects nothing."""

    def __init__(self, filter_like: Any):
        super().__init__(
            f"{filter_like!r} does not select collections: pass True, False, a name, a list of "
            "names, or a DenyList"
        )


class InvalidScopeError(FlaxError):
    """A scope was used after the call it belonged to."""

    def __init__(self, scope_name: Any):
        super().__init__(
            f"the scope of {scope_name!r} ended with the init or apply call that made it; a bound "
            "module must not leave that call. Return arrays, or use module.bind(variables)"
        )


class ModifyScopeVariableError(FlaxError):
    """A variable of an immutable collection was written."""

    def __init__(self, col: str, variable_name: str, scope_path: str):
        super().__init__(
            f"cannot write {variable_name!r} in {scope_path!r}: the collection {col!r} is "
            f"immutable. Pass mutable=[{col!r}] to apply, which then returns (output, variables)"
        )


class PartitioningUnspecifiedError(FlaxError):
    """A lifted transformation added an axis to a partitioned variable, but has no name for it."""

    def __init__(self, target: Any):
        super().__init__(
            f"an axis of {target} needs a name: pass "
            "metadata_params={nn.PARTITION_NAME: 'axis'} to the lifted transformation"
        )


class NameInUseError(FlaxError):
    """Two things in one module have the same name."""

    def __init__(self, key_type: str, value: str, module_name: str):
        super().__init__(
            f"{module_name} cannot have a {key_type} {value!r}: the name is taken by another "
            "submodule, parameter or variable. Choose another name"
        )


class AssignSubModuleError(FlaxError):
    """A submodule was made where modules cannot be made."""

    def __init__(self, cls: str, parent: str = "its parent"):
        super().__init__(
            f"{cls} was made inside a method of {parent} that is neither setup nor @nn.compact: "
            "make it in setup (self.layer = ...), or mark the method with @nn.compact"
        )


class SetAttributeInModuleSetupError(FlaxError):
    """A field of a module was overwritten in ``setup``."""

    def __init__(self, name: str = "a field"):
        super().__init__(
            f"setup cannot overwrite {name!r}, a field of the module: store the new value under "
            "another name"
        )


class SetAttributeFrozenModuleError(FlaxError):
    """An attribute of a module was set outside of ``setup``."""

    def __init__(self, module_cls: str, attr_name: str, attr_val: Any):
        super().__init__(
            f"{module_cls}.{attr_name} cannot be set here: modules are frozen outside of setup. "
            "Assign it in setup, or make a changed module with module.clone(...)"
        )


class ReservedModuleAttributeError(FlaxError):
    """A module declares a field that every module has already."""

    def __init__(self, annotations: Any):
        super().__init__(
            f"'parent' and 'name' are fields of every module and cannot be declared: {annotations}"
        )


class ApplyModuleInvalidMethodError(FlaxError):
    """The ``method`` given to ``apply`` is no method."""

    def __init__(self, method: Any):
        super().__init__(
            f"method={method!r} is neither a method of the module, its name, nor a function whose "
            "first argument is the module"
        )


class CallCompactUnboundModuleError(FlaxError):
    """A compact method was called on a module without variables."""

    def __init__(self, name: str = "the module"):
        super().__init__(
            f"{name} has no variables yet and cannot be called by itself: write "
            "module.init(key, x) to make them, module.apply(variables, x) to use them, or "
            "module.bind(variables)"
        )


class CallSetupUnboundModuleError(FlaxError):
    """``setup`` was called by hand."""

    def __init__(self, name: str = "the module"):
        super().__init__(
            f"setup of {name} runs by itself inside init, apply and bind; do not call it"
        )


class CallUnbindOnUnboundModuleError(FlaxError):
    """``unbind`` was called on a module without variables."""

    def __init__(self, name: str = "the module"):
        super().__init__(f"{name} is not bound: only what module.bind(variables) returned can be")


class CallShareScopeOnUnboundModuleError(FlaxError):
    """``share_scope`` was called on a module without variables."""

    def __init__(self):
        super().__init__("share_scope needs bound modules: call it in setup or a compact method")


class InvalidInstanceModuleError(FlaxError):
    """A method of instances was called on the class."""

    def __init__(self):
        super().__init__(
            "init, apply and bind are called on an instance: write Model(...).init(key, x), not "
            "Model.init(key, x)"
        )


class IncorrectPostInitOverrideError(FlaxError):
    """``__post_init__`` was overridden without calling the base class."""

    def __init__(self, name: str = "the module"):
        super().__init__(
            f"__post_init__ of {name} must call super().__post_init__() as its last step"
        )


class DescriptorAttributeError(FlaxError):
    """A property asked for an attribute that does not exist."""

    def __init__(self, name: str = "", why: Any = ""):
        super().__init__(f"the property {name!r} failed: {why}")


class TransformedMethodReturnValueError(FlaxError):
    """A lifted method returned a module or a variable."""

    def __init__(self, name: str):
        super().__init__(
            f"{name} is transformed and must return arrays, not modules or variables: return "
            "variable.value, or what the module computed"
        )


class TransformTargetError(FlaxError):
    """A lifted transformation was applied to a module instead of its class or a function."""

    def __init__(self, target: Any):
        super().__init__(
            f"cannot transform {target!r}: pass the module's class (nn.jit(Model)(...)), or a "
            "function whose first argument is a module"
        )


class JaxTransformError(FlaxError):
    """A module kept values of a plain transformation that had ended."""

    def __init__(self, paths: Iterable[str] = ()):
        names = ", ".join(paths)
        super().__init__(
            f"variables were made or written inside of a plain transformation ({names}), and its "
            "traced values are of no use after it. Use the lifted one instead: nn.jit, nn.scan, "
            "nn.remat, nn.cond, nn.while_loop, ... for weft.jit, weft.lax.scan, ..."
        )
