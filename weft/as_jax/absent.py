"""Names of JAX that can be imported though weft has nothing for them.

Libraries import kernels for TPUs and GPUs, or classes of MLIR, at the top of a file and use them in
some of their functions only. So the names are there, and using one raises an error that names it.
"""

from __future__ import annotations

from typing import Any, NoReturn

# A module, then the names that it has on JAX and that weft does not have.
LINES = """
jax.experimental.pallas: ANY BlockDim BlockSpec Blocked BoundedSlice Buffered CompilerParams
    CostEstimate DeviceIdType Element GridSpec HOST Indirect MemoryRef MemorySpace RevisitMode
    Slice Squeezed align_to broadcast_to core_map debug_check debug_checks_enabled debug_print
    delay dot ds dslice empty empty_like empty_ref_like enable_debug_checks enable_poison_buffers
    estimate_cost get_global kernel loop lower_as_mlir multiple_of no_block_spec num_programs
    pallas_call pallas_call_p pallas_export_experimental program_id reciprocal run_scoped
    run_state select_ref semaphore semaphore_read semaphore_signal semaphore_wait squeezed
    strides_from_shape when with_scoped
jax.experimental.pallas.fuser: BlockIndexTransform Fusion custom_fusion evaluate fuse fusible
    get_fusion_values get_stateful_input_fusion_values get_stateful_output_fusion_values
    make_scalar_prefetch_handler pull_block_spec push_block_spec
jax.experimental.pallas.mosaic_gpu: Barrier BlockSpec ClusterBarrier CompilerParams CopyPartition
    GMEM Layout LoweringSemantics MemorySpace Mesh NDLoopInfo OOBFillMode PeerMemRef
    PipelinePipeline REGS RefType RefUnion Replicated SMEM SemaphoreSignal SemaphoreType
    ShapeDtypeStruct SwizzleTransform TMEM TMEMLayout Tiling TilingTransform TraceScope Transform
    TryClusterCancelResult WGMMAAccumulatorRef WarpMesh as_torch_kernel async_copy_scales_to_tmem
    async_copy_smem_to_tmem async_copy_sparse_metadata_to_tmem async_load_tmem async_prefetch
    async_store_smem async_store_tmem atomic_add atomic_and atomic_max atomic_min atomic_or
    atomic_xor barrier_arrive barrier_test barrier_wait broadcasted_iota cluster_ref commit_smem
    commit_smem_to_gmem_group commit_tmem copy_gmem_to_smem copy_smem_to_gmem
    dynamic_scheduling_loop emit_pipeline emit_pipeline_warp_specialized find_swizzle
    format_tcgen05_sparse_metadata griddepcontrol_launch_dependents griddepcontrol_wait
    inline_mgpu kernel layout_cast load multicast_ref multimem_load_reduce multimem_store nd_loop
    planar_snake print_layout query_cluster_cancel remote_ref semaphore_signal
    semaphore_signal_multicast semaphore_signal_parallel semaphore_wait set_max_registers
    tcgen05_commit_arrive tcgen05_mma transform_ref transpose_ref try_cluster_cancel
    wait_load_tmem wait_smem_to_gmem warp_map wgmma wgmma_accumulator_load wgmma_wait
jax.experimental.pallas.tpu: ARBITRARY BufferType BufferedRef BufferedRefBase CMEM CORE_PARALLEL
    ChipVersion CompilerParams CoreType DeviceIdType GridDimensionSemantics HBM HOST
    InterpretParams LoweringException MemorySpace PARALLEL PrefetchScalarGridSpec SEMAPHORE SMEM
    SUBCORE_PARALLEL SemaphoreType SideEffectType Tiling TpuInfo VMEM VMEM_SHARED async_copy
    async_remote_copy bitcast core core_barrier create_tensorcore_mesh dma_semaphore einshape
    emit_pipeline emit_pipeline_with_allocations force_tpu_interpret_mode get_barrier_semaphore
    get_tpu_info get_tpu_info_for_chip is_tpu_device load make_async_copy make_async_remote_copy
    matmul_acc_lhs matmul_pop matmul_push_rhs pack_elementwise prng_random_bits prng_seed
    reset_tpu_interpret_mode_state roll run_on_first_core sample_block semaphore semaphore_read
    semaphore_signal semaphore_wait set_tpu_interpret_mode stateful_bernoulli stateful_bits
    stateful_normal stateful_uniform stochastic_round store sync_copy to_pallas_key touch
    trace_value unpack_elementwise with_memory_space_constraint
jax.experimental.pallas.tpu_sc: Indices PackFormat ScalarSubcoreMesh VectorSubcoreMesh addupdate
    addupdate_compressed addupdate_scatter all_reduce_ffs all_reduce_population_count bitcast
    cummax cumsum fetch_and_add get_sparse_core_info load_expanded load_gather pack parallel_loop
    scan_count sort_key_val store_compressed store_scatter subcore_barrier unpack
jax.experimental.pallas.triton: CompilerParams approx_tanh atomic_add atomic_and atomic_cas
    atomic_max atomic_min atomic_or atomic_xchg atomic_xor debug_barrier dot
    elementwise_inline_asm load max_contiguous store
jax.experimental.pallas.ops:
jax.experimental.pallas.ops.gpu:
jax.experimental.pallas.ops.gpu.all_gather_mgpu: all_gather
jax.experimental.pallas.ops.gpu.attention: BlockSizes DEFAULT_MASK_VALUE mha mha_backward_kernel
    mha_forward_kernel mha_reference segment_mask
jax.experimental.pallas.ops.gpu.attention_mgpu: PipelineCallback TuningConfig attention
    attention_reference attention_with_pipeline_emitter
jax.experimental.pallas.ops.gpu.blackwell_matmul_mgpu: MatmulDimension TuningConfig matmul_kernel
jax.experimental.pallas.ops.gpu.blackwell_ragged_dot_mgpu: TuningConfig do_matmul
    ragged_dot_kernel ragged_dot_reference sample_group_sizes
jax.experimental.pallas.ops.gpu.collective_matmul_mgpu: MatmulDimension TuningConfig
    all_gather_lhs_matmul is_nvshmem_used
jax.experimental.pallas.ops.gpu.decode_attention: attn_forward_kernel decode_attn_unbatched gqa
    gqa_reference mha_reference mqa mqa_reference
jax.experimental.pallas.ops.gpu.hopper_matmul_mgpu: MatmulDimension TuningConfig get_num_sms
    kernel matmul
jax.experimental.pallas.ops.gpu.hopper_mixed_type_matmul_mgpu: MatmulDimension TuningConfig
    mixed_matmul_kernel reference
jax.experimental.pallas.ops.gpu.layer_norm: layer_norm layer_norm_backward
    layer_norm_backward_kernel_dw_db layer_norm_backward_kernel_dx layer_norm_forward
    layer_norm_forward_kernel layer_norm_reference
jax.experimental.pallas.ops.gpu.paged_attention: DEFAULT_MASK_VALUE paged_attention
    paged_attention_kernel paged_attention_reference paged_attention_unbatched
jax.experimental.pallas.ops.gpu.ragged_dot_mgpu: GroupInfo ragged_dot
jax.experimental.pallas.ops.gpu.reduce_scatter_mgpu: reduce_scatter
jax.experimental.pallas.ops.gpu.rms_norm: rms_norm rms_norm_backward
    rms_norm_backward_kernel_dw_db rms_norm_backward_kernel_dx rms_norm_forward
    rms_norm_forward_kernel rms_norm_reference
jax.experimental.pallas.ops.gpu.softmax: softmax
jax.experimental.pallas.ops.gpu.transposed_ragged_dot_mgpu: ref_transposed_ragged_dot
    transposed_ragged_dot
jax.experimental.pallas.ops.tpu:
jax.experimental.pallas.ops.tpu.all_gather: ag_kernel all_gather get_neighbor
jax.experimental.pallas.ops.tpu.example_kernel: double double_kernel
jax.experimental.pallas.ops.tpu.flash_attention: BlockSizes DEFAULT_MASK_VALUE MIN_BLOCK_SIZE
    NUM_LANES NUM_SUBLANES SegmentIds TRANS_B_DIM_NUMBERS below_or_on_diag flash_attention
    mha_reference mha_reference_bwd mha_reference_no_custom_vjp
jax.experimental.pallas.ops.tpu.matmul: matmul matmul_kernel
jax.experimental.pallas.ops.tpu.megablox:
jax.experimental.pallas.ops.tpu.megablox.common: assert_is_supported_dtype is_tpu
    select_input_dtype supports_bfloat16_matmul tpu_generation tpu_kind
jax.experimental.pallas.ops.tpu.megablox.gmm: GroupMetadata LutFn gmm make_group_metadata tgmm
jax.experimental.pallas.ops.tpu.megablox.ops: gmm
jax.experimental.pallas.ops.tpu.paged_attention: paged_attention
jax.experimental.pallas.ops.tpu.paged_attention.paged_attention_kernel: DEFAULT_MASK_VALUE
    MultiPageAsyncCopyDescriptor paged_attention paged_flash_attention_kernel
    paged_flash_attention_kernel_inline_seq_dim
jax.experimental.pallas.ops.tpu.paged_attention.quantization_utils: MAX_INT8 QuantizedTensor
    from_int8 get_quantization_scales quantize_to_int8 to_int8 unquantize_from_int8
jax.experimental.pallas.ops.tpu.paged_attention.util: MASK_VALUE grouped_query_attention_reference
jax.experimental.pallas.ops.tpu.ragged_paged_attention: dynamic_validate_inputs
    get_tuned_block_sizes ragged_paged_attention ref_ragged_paged_attention static_validate_inputs
jax.experimental.pallas.ops.tpu.ragged_paged_attention.kernel: DEFAULT_MASK_VALUE
    MultiPageAsyncCopyDescriptor dynamic_validate_inputs get_dtype_packing get_min_heads_per_blk
    ragged_paged_attention ragged_paged_attention_kernel ref_ragged_paged_attention
    static_validate_inputs
jax.experimental.pallas.ops.tpu.ragged_paged_attention.tuned_block_sizes: MAX_PAGES_PER_SEQ
    TUNED_BLOCK_SIZES get_device_name get_min_page_size get_tpu_version get_tuned_block_sizes
    simplify_key
jax.experimental.pallas.ops.tpu.random:
jax.experimental.pallas.ops.tpu.random.philox: BLOCK_SIZE K_HI_32 K_LO_32 MUL_A MUL_B mul32_hi_lo
    philox_4x32 philox_4x32_count philox_4x32_kernel philox_fold_in philox_random_bits
    philox_split plphilox_prng_impl
jax.experimental.pallas.ops.tpu.random.prng_utils: blocked_iota compute_scalar_offset round_up
jax.experimental.pallas.ops.tpu.random.threefry: BLOCK_SIZE plthreefry_prng_impl
    plthreefry_random_bits threefry_2x32_count
jax.experimental.pallas.ops.tpu.splash_attention: BlockSizes CausalMask FullMask LocalMask Mask
    MultiHeadMask NumpyMask QKVLayout SegmentIds make_causal_mask make_local_attention_mask
    make_masked_mha_reference make_masked_mqa_reference make_random_mask make_splash_mha
    make_splash_mha_single_device make_splash_mqa make_splash_mqa_single_device
jax.experimental.pallas.ops.tpu.splash_attention.splash_attention_kernel: BlockSizes
    DEFAULT_MASK_VALUE MaskFunctionType NN_DIM_NUMBERS NT_DIM_NUMBERS NUM_LANES NUM_SUBLANES
    QKVLayout SegmentIds SplashAttentionKernel SplashCustomReturnType SplashResidualsType
    attention_reference attention_reference_custom flash_attention_kernel from_head_minor
    get_kernel_name make_attention_reference make_masked_mha_reference make_masked_mqa_reference
    make_splash_mha make_splash_mha_single_device make_splash_mqa make_splash_mqa_single_device
jax.experimental.pallas.ops.tpu.splash_attention.splash_attention_mask: CausalMask
    ChunkedCausalMask FullMask LocalMask LogicalAnd LogicalOr Mask MultiHeadMask NumpyMask
    make_causal_mask make_chunk_attention_mask make_local_attention_mask make_random_mask
jax.experimental.pallas.ops.tpu.splash_attention.splash_attention_mask_info: MaskInfo
    process_dynamic_mask process_dynamic_mask_dkv process_mask process_mask_dkv
jax.interpreters.mlir: AxisContext ConstantHandler DEVICE_TO_DEVICE_TYPE LoweringParameters
    LoweringResult LoweringRule LoweringRuleContext MeshAxisName ModuleContext RECV_FROM_HOST_TYPE
    SEND_TO_HOST_TYPE SPMDAxisContext ShapePolyLoweringState ShardingContext Token TokenSet Value
    aval_to_ir_type aval_to_ir_types core_call_lowering dense_int_array dense_int_elements
    dtype_to_ir_type flatten_ir_types flatten_ir_values i32_attr i64_attr ir ir_attribute
    ir_constant ir_constants ir_tree_registry ir_type_handlers jaxpr_subcomp lower_jaxpr_to_fun
    lower_jaxpr_to_module lowerable_effects make_ir_context merge_mlir_modules module_to_bytecode
    module_to_string register_constant_handler shape_tensor token_type
    unflatten_ir_values_like_types
jaxlib.xla_client: ArrayCopySemantics AutotuneCacheMode Client CompileOptions CustomCallHandler
    CustomCallTargetTraits CustomTypeIdHandler DeviceAssignment DeviceList DeviceTopology
    Executable Frame GSPMDSharding HloSharding HostBufferSemantics Layout LoadedExecutable
    LoadedExecutable_execute LoadedExecutable_execute_with_token Memory OpSharding PjRtLayout
    PrimitiveType ProgramShape Shape Traceback TracebackScope XlaComputation array_result_handler
    batched_block_until_ready batched_copy_array_to_devices_with_sharding batched_device_put
    check_and_canonicalize_memory_kind custom_call_targets encode_inspect_sharding_callback
    execution_stream_id generate_pjrt_gpu_plugin_options get_topology_for_devices hlo
    initialize_pjrt_plugin load_pjrt_plugin_dynamically load_pjrt_plugin_with_c_api
    make_c_api_client make_c_api_device_topology make_cpu_client
    make_tfrt_tpu_c_api_device_topology pjrt_plugin_initialized pjrt_plugin_loaded
    register_custom_call_as_batch_partitionable register_custom_call_handler
    register_custom_call_partitioner register_custom_call_target register_custom_type
    register_custom_type_handler reorder_shards xla_platform_names
jaxlib._jax: ArrayCopySemantics ArrayMeta AutotuneCacheMode Client CompileOnlyPyClient
    CompileOptions CompiledMemoryStats CpuCollectives DebugOptions DeviceAssignment DeviceList
    DeviceTopology DistributedRuntimeClient DistributedRuntimeService Executable
    ExecutableBuildOptions ExecuteResults Frame GSPMDSharding HostBufferSemantics LoadedExecutable
    Memory MpiCollectives PjRtLayout PjitFunctionCache PreemptionSyncManager ResultHandler
    RuntimeTracebackMode ShardedToken Token Traceback TracebackScope TransferConnection
    TransferServer TransferServerInterfaceFactory add_exclude_path
    approx_top_k_reduction_output_size array_result_handler batched_block_until_ready
    batched_copy_array_to_devices_with_sharding batched_device_put buffer_to_dlpack_managed_tensor
    canonicalize_partition canonicalize_partitions canonicalize_value
    check_and_canonicalize_memory_kind collect_garbage config create_preemption_sync_manager
    cuda_array_interface_to_buffer custom_call_targets dlpack_managed_tensor_to_buffer
    encode_inspect_sharding_callback ffi get_c_api_client get_c_api_topology
    get_default_c_api_topology get_distributed_runtime_client get_distributed_runtime_service
    get_execution_stream_id get_internal_device_put_info get_tfrt_cpu_client
    get_topology_for_devices guard_lib hlo_module_cost_analysis ifrt_version_number
    initialize_pjrt_plugin is_asan is_msan is_optimized_build is_sanitized is_tsan jax_jit
    json_to_pprof_profile load_pjrt_plugin make_gloo_tcp_collectives make_mpi_collectives
    make_transfer_server_interface_factory mlir pjit pjrt_plugin_initialized pjrt_plugin_loaded
    pprof_profile_to_json pytree register_canonicalize_value_handler
    register_custom_call_as_batch_partitionable register_custom_call_partitioner
    register_custom_call_target register_custom_type reorder_shards set_execution_stream_id
    set_invalid_input_exception set_pspec_unconstrained set_send_traceback_to_runtime_global
    set_send_traceback_to_runtime_thread_local set_tracebacks_enabled set_tracer_class
    set_typed_complex_type set_typed_float_type set_typed_int_type set_typed_ndarray_type
    set_valid_dtypes start_transfer_server tracebacks_enabled
"""

# What to write in place of names of a module, by the start of the module's name.
ADVICE = {
    "jax.experimental.pallas": "write the function with jax.numpy and jax.lax, which weft compiles",
    "jax.interpreters.mlir": "give the primitive a lowering made by mlir.lower_fun",
}


class Absent(type):
    """The class of placeholders: every use but naming one raises.

    A placeholder is a class, so that annotations, ``isinstance`` and default arguments may hold it.
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(_message(cls, "cannot be called"))

    def __getattr__(cls, name: str) -> NoReturn:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)  # questions that Python itself asks
        raise RuntimeError(_message(cls, f"has no attribute {name!r}"))

    def __getitem__(cls, key: Any) -> NoReturn:
        raise RuntimeError(_message(cls, "cannot be indexed"))

    def __iter__(cls) -> NoReturn:
        raise RuntimeError(_message(cls, "cannot be iterated over"))

    def __repr__(cls) -> str:
        return f"<{cls.__module__}.{cls.__qualname__}, which weft does not have>"


def _message(cls: type, what: str) -> str:
    absent = next(c for c in reversed(cls.__mro__) if isinstance(c, Absent))
    module = absent.__module__
    advice = next((text for start, text in ADVICE.items() if module.startswith(start)), "")
    return (
        f"{module}.{absent.__qualname__} {what}: weft does not have it and lets programs import it"
        f" only{f'; {advice}' if advice else ''}"
    )


def placeholder(module: str, name: str) -> Absent:
    """The class that stands for a name.

    >>> placeholder("jax.experimental.pallas", "BlockSpec")
    <jax.experimental.pallas.BlockSpec, which weft does not have>
    """
    return Absent(name, (), {"__module__": module, "__doc__": "A name that weft does not have."})


def read(lines: str) -> dict[str, frozenset[str]]:
    """The names by module.

    >>> read("a.b: x y\\n    z")["a.b"] == {"x", "y", "z"}
    True
    """
    found: dict[str, list[str]] = {}
    module = ""
    for line in lines.strip("\n").split("\n"):
        if not line.startswith(" "):
            module, _, line = line.partition(":")
            found[module] = []
        found[module] += line.split()
    return {module: frozenset(names) for module, names in found.items()}


ABSENT = read(LINES)
