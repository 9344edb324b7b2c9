; Written by tools/first_texts.py from first_stubs.py; change it there.
declare ptr @memset(ptr, i32, i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(ptr, ptr)
define internal i64 @add(ptr, i64) nounwind alwaysinline {
%x = atomicrmw add ptr %0, i64 %1 seq_cst
ret i64 %x
}
define ptr @share(ptr %a.record) nounwind {
entry:
  %m.s11 = alloca [128 x i8], align 64
  %m.s12 = alloca [128 x i8], align 64
  %v1 = load ptr, ptr %a.record, align 8
  %v2 = getelementptr i64, ptr %a.record, i64 1
  %v3 = load i64, ptr %v2, align 8
  %v4 = mul i64 %v3, 2
  %v5 = add i64 %v4, 1
  %v6 = add i64 %v5, 2
  %v7 = getelementptr i64, ptr %v1, i64 5
  %v8 = load i64, ptr %v7, align 8
  %v9 = icmp slt i64 %v6, %v8
  %v10 = select i1 %v9, i64 %v6, i64 %v8
  %v13 = call ptr @memset(ptr %m.s11, i32 255, i64 128)
  %v14 = call i32 @pthread_sigmask(i32 0, ptr %v13, ptr %m.s12)
  br label %head15
head15:
  %v18 = phi i64 [ %v5, %entry ], [ %v33, %end27 ]
  %v19 = icmp slt i64 %v18, %v10
  br i1 %v19, label %body16, label %end17
body16:
  %v20 = mul i64 %v18, 3
  %v21 = add i64 7, %v20
  %v22 = mul i64 %v21, 8
  %v23 = getelementptr i8, ptr %v1, i64 %v22
  store ptr %v1, ptr %v23, align 8
  %v24 = getelementptr i64, ptr %v23, i64 1
  store i64 %v18, ptr %v24, align 8
  %v28 = getelementptr i8, ptr %v23, i64 16
  %v29 = getelementptr ptr, ptr %v1, i64 6
  %v30 = load ptr, ptr %v29, align 8
  %v31 = call i32 @pthread_create(ptr %v28, ptr null, ptr %v30, ptr %v23)
  %v32 = icmp ne i32 %v31, 0
  br i1 %v32, label %then25, label %end27
then25:
  br label %end17
end27:
  %v33 = add i64 %v18, 1
  br label %head15
end17:
  %v34 = call i32 @pthread_sigmask(i32 2, ptr %m.s12, ptr null)
  %v35 = getelementptr i64, ptr %v1, i64 2
  %v36 = load i64, ptr %v35, align 8
  %v37 = getelementptr i64, ptr %v1, i64 3
  %v38 = load i64, ptr %v37, align 8
  %v39 = getelementptr i8, ptr %v1, i64 32
  %v40 = call i64 @add(ptr %v39, i64 %v38)
  br label %head41
head41:
  %v44 = phi i64 [ %v40, %end17 ], [ %v53, %body42 ]
  %v45 = icmp slt i64 %v44, %v36
  br i1 %v45, label %body42, label %end43
body42:
  %v46 = load ptr, ptr %v1, align 8
  %v47 = getelementptr ptr, ptr %v1, i64 1
  %v48 = load ptr, ptr %v47, align 8
  %v49 = add i64 %v44, %v38
  %v50 = icmp slt i64 %v49, %v36
  %v51 = select i1 %v50, i64 %v49, i64 %v36
  call void %v46(ptr %v48, i64 %v44, i64 %v51)
  %v52 = getelementptr i8, ptr %v1, i64 32
  %v53 = call i64 @add(ptr %v52, i64 %v38)
  br label %head41
end43:
  br label %head54
head54:
  %v57 = phi i64 [ %v5, %end43 ], [ %v65, %body55 ]
  %v58 = icmp slt i64 %v57, %v18
  br i1 %v58, label %body55, label %end56
body55:
  %v59 = mul i64 %v57, 3
  %v60 = add i64 7, %v59
  %v61 = add i64 %v60, 2
  %v62 = getelementptr ptr, ptr %v1, i64 %v61
  %v63 = load ptr, ptr %v62, align 8
  %v64 = call i32 @pthread_join(ptr %v63, ptr null)
  %v65 = add i64 %v57, 1
  br label %head54
end56:
  ret ptr null
}
