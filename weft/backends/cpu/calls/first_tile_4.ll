; Written by tools/first_texts.py from first_stubs.py; change it there.
declare <4 x float> @llvm.fmuladd.v4f32(<4 x float>, <4 x float>, <4 x float>)
define void @tile(ptr %a.buffers, i64 %a.start, i64 %a.stop) nounwind {
entry:
  %v1 = load ptr, ptr %a.buffers, align 8
  %v2 = getelementptr ptr, ptr %a.buffers, i64 1
  %v3 = load ptr, ptr %v2, align 8
  %v4 = getelementptr ptr, ptr %a.buffers, i64 2
  %v5 = load ptr, ptr %v4, align 8
  br label %head6
head6:
  %v9 = phi i64 [ %a.start, %entry ], [ %v41, %end13 ]
  %v10 = icmp slt i64 %v9, %a.stop
  br i1 %v10, label %body7, label %end8
body7:
  br label %head11
head11:
  %v14 = phi <4 x float> [ splat (float 0x0000000000000000), %body7 ], [ %v27, %body12 ]
  %v15 = phi <4 x float> [ splat (float 0x0000000000000000), %body7 ], [ %v32, %body12 ]
  %v16 = phi i64 [ 0, %body7 ], [ %v34, %body12 ]
  %v17 = icmp slt i64 %v16, %a.stop
  br i1 %v17, label %body12, label %end13
body12:
  %v18 = mul i64 %v9, %a.stop
  %v19 = add i64 %v18, %v16
  %v20 = getelementptr float, ptr %v1, i64 %v19
  %v21 = load float, ptr %v20, align 4
  %v22 = insertelement <4 x float> poison, float %v21, i64 0
  %v23 = shufflevector <4 x float> %v22, <4 x float> poison, <4 x i32> zeroinitializer
  %v24 = mul i64 2, %v16
  %v25 = getelementptr <4 x float>, ptr %v3, i64 %v24
  %v26 = load <4 x float>, ptr %v25, align 4
  %v27 = call <4 x float> @llvm.fmuladd.v4f32(<4 x float> %v23, <4 x float> %v26, <4 x float> %v14)
  %v28 = mul i64 2, %v16
  %v29 = add i64 %v28, 1
  %v30 = getelementptr <4 x float>, ptr %v3, i64 %v29
  %v31 = load <4 x float>, ptr %v30, align 4
  %v32 = call <4 x float> @llvm.fmuladd.v4f32(<4 x float> %v23, <4 x float> %v31, <4 x float> %v15)
  %v33 = add i64 %v16, 1
  %v34 = call i64 asm "", "=r,0"(i64 %v33)
  br label %head11
end13:
  %v35 = mul i64 2, %v9
  %v36 = getelementptr <4 x float>, ptr %v5, i64 %v35
  store <4 x float> %v14, ptr %v36, align 4
  %v37 = mul i64 2, %v9
  %v38 = add i64 %v37, 1
  %v39 = getelementptr <4 x float>, ptr %v5, i64 %v38
  store <4 x float> %v15, ptr %v39, align 4
  %v40 = add i64 %v9, 1
  %v41 = call i64 asm "", "=r,0"(i64 %v40)
  br label %head6
end8:
  ret void
}
