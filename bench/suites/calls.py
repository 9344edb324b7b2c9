"""The calls of the sweep: one or more for every function of the public modules, as text.

A line is a call of a function of its module. Its arguments are named by letters (``sweep.py`` says
which arrays they are); behind ``|`` comes what NumPy or SciPy are to run instead, or ``-`` where
they have nothing like it, or give a view where the others have to copy. A line ending in ``!`` is
not compiled: the shape of its result depends on data.
"""

from __future__ import annotations

NUMPY = """
abs(x)  absolute(x)  array(x)  asarray(x)|-  atleast_1d(x)|-  atleast_2d(x)|-  atleast_3d(x)|-
broadcast_arrays(K,M)|-  diag_indices(r)  diag_indices_from(M)  dsplit(T,2)|-  empty(n)|-
empty_like(x)|-  fill_diagonal(M,0.0,inplace=False)|-  fromfunction(lambda a,b:a+b,(r,r))
tril_indices_from(M)  triu_indices_from(M)  acos(u-0.5)|arccos(u-0.5)  acosh(p+1)|arccosh(p+1)
add(x,y)  all(h)  allclose(x,x)  amax(x)  amin(x)  angle(c)  any(l)  append(x,y)
apply_along_axis(np.sum,0,M)  apply_over_axes(np.sum,M,(0,1))  arange(n)  arccos(u-0.5)
arccosh(p+1)  arcsin(u-0.5)  arcsinh(x)  arctan(x)  arctan2(x,y)  arctanh(u-0.5)  argmax(x)
argmin(x)  argmax(M,1)  argmax(M,0)  argpartition(x,5)  argsort(x)  argsort(M)  argwhere(x>1)!
around(x)  around(x,2)  array_equal(x,x)  array_equiv(x,x)  array_split(x,4)|-
asin(u-0.5)|arcsin(u-0.5)  asinh(x)|arcsinh(x)  astype(x,np.int32)  astype(i,np.float32)
atan(x)|arctan(x)  atan2(x,y)|arctan2(x,y)  atanh(u-0.5)|arctanh(u-0.5)  average(x)
average(x,weights=p)  average(M,1)  bartlett(r)  bincount(i,length=r)|bincount(i)
bincount(i,p,length=r)|bincount(i,p)  bitwise_and(i,j)  bitwise_count(i)  bitwise_invert(i)
bitwise_left_shift(i,s)  bitwise_not(i)  bitwise_or(i,j)  bitwise_right_shift(i,s)  bitwise_xor(i,j)
blackman(r)  block([[M,M],[M,M]])  broadcast_to(K,M.shape)|-  cbrt(x)  ceil(x)
choose(s%3,(x,y,p),mode='clip')  clip(x,-1,1)  column_stack((x,y))  compress(b,x)!  concat((x,y))
concatenate((x,y))  concatenate((M,M),1)  conj(c)  conjugate(c)  convolve(x,t)  convolve(x,t[:9])
convolve(x,t,'same')  copy(x)  copysign(x,y)  corrcoef(M)  corrcoef(O.T)  correlate(x,t)
correlate(x,t[:9])  cos(x)  cosh(x)  count_nonzero(b)  count_nonzero(x)  cov(M)  cov(O.T)  cov(x,y)
cross(V,W)  cumprod(x)  cumsum(x)  cumsum(M,0)  cumsum(M,1)  cumsum(i)  cumulative_prod(x)
cumulative_sum(x)  deg2rad(x)  degrees(x)  delete(x,5)  delete(x,slice(3))  diag(K)  diag(M)|-
diagflat(K)  diagonal(M)|-  diff(x)  diff(M,axis=0)  diff(x,n=2)  digitize(x,t)  divide(x,p)
divmod(x,p)  divmod(i,s)  dot(M,N)  dot(x,y)  dot(M,K)  dstack((M,N))  ediff1d(x)
einsum('ij,jk->ik',M,N)  einsum('ij,ij->i',M,N)  einsum('ij->ji',M)|-  einsum('ii->',M)
einsum('ij,j->i',M,K)  einsum('i,j->ij',K,K)  einsum('bij,bjk->bik',T,P)
einsum('ij,ik,kl->jl',A,B,A)  einsum('ijk,ilk->ijl',T,P)  einsum('ij->j',M)  equal(i,j)  exp(x)
exp2(x)  expand_dims(x,0)|-  expm1(x)  extract(b,x)!  eye(r)  fabs(x)  flatnonzero(b)!
flatnonzero(b,size=100)|flatnonzero(b)  flip(x)|-  flip(M,1)|-  fliplr(M)|-  flipud(M)|-
float_power(p,y)  floor(x)  floor_divide(x,p)  floor_divide(i,s)  fmax(x,y)  fmin(x,y)  fmod(x,p)
fmod(i,s)  frexp(x)  full(n,2.0)  full_like(x,2)  gcd(i,j)  geomspace(1.0,1000.0,n)  gradient(x)
gradient(M)  gradient(x,0.1)  greater(x,y)  greater_equal(x,y)  hamming(r)  hanning(r)
heaviside(x,y)  histogram(x,100)  histogram(x,t)  histogram(x,20,weights=p)  histogram2d(x,y,30)
histogram_bin_edges(x,100)  histogramdd(V,10)  hsplit(M,4)|-  hstack((x,y))  hstack((M,N))
hypot(x,y)  i0(x)  identity(r)  imag(c)|-  indices((r,r))  inner(x,y)  inner(M,N)  insert(x,5,1.0)
interp(x,t,K)  interp(x,t,K,period=3)  intersect1d(i,j)!  invert(i)  isclose(x,y)  iscomplex(c)
isfinite(x)  isin(i,j)  isin(i,w)  isinf(x)  isnan(x)  isneginf(x)  isposinf(x)  isreal(c)
ix_(x,y)|-  kaiser(r,8.0)  kron(K,K)  kron(A,O[:4,:4])  lcm(s,j)  ldexp(x,s)  left_shift(i,s)
less(x,y)  less_equal(x,y)  lexsort((x,i))  linspace(0.0,1.0,n)  log(p)  log10(p)  log1p(p)  log2(p)
logaddexp(x,y)  logaddexp2(x,y)  logical_and(b,d)  logical_not(b)  logical_or(b,d)  logical_xor(b,d)
logspace(0.0,3.0,n)  matmul(M,N)  matmul(M,K)  matmul(T,P)  matmul(K,M)  matrix_transpose(M)|-
matvec(M,K)  matvec(T,E)  max(x)  max(M,0)  max(M,1)  maximum(x,y)  mean(x)  mean(M,0)  mean(M,1)
median(x)  median(M,0)  median(M,1)  meshgrid(K,K)|meshgrid(K,K)  min(x)  min(M,0)  minimum(x,y)
mod(x,p)  mod(i,s)  modf(x)  moveaxis(T,0,-1)|-  multiply(x,y)  nan_to_num(f)  nanargmax(f)
nanargmin(f)  nancumprod(f)  nancumsum(f)  nanmax(f)  nanmean(f)  nanmean(F,0)  nanmean(F,1)
nanmedian(f)  nanmedian(F,1)  nanmin(f)  nanpercentile(f,30)  nanprod(f)  nanquantile(f,0.3)
nanstd(f)  nanstd(F,0)  nansum(f)  nansum(F,0)  nanvar(f)  nanvar(F,1)  negative(x)  nextafter(x,y)
nonzero(b)!  nonzero(b,size=100)|nonzero(b)  nonzero(x>1,size=100)|nonzero(x>1)  not_equal(i,j)
ones(n)  ones_like(x)  outer(K,K)  packbits(b)  pad(x,100)  pad(M,((1,2),(3,4)))  pad(x,100,'edge')
pad(x,100,'reflect')  pad(M,3,'wrap')  pad(M,3,'symmetric')  pad(M,3,'mean')  pad(M,3,'linear_ramp')
partition(x,5)  partition(x,len(x)//2)  percentile(x,30)  percentile(M,30,0)  percentile(M,30,1)
percentile(x,np.array([10,50,90.0]))  permute_dims(T,(2,0,1))|-
piecewise(x,[x<0,x>=0],[lambda a:-a,lambda a:a*a])  place(x,b,y,inplace=False)|-
poly(w[:10]/1000.0)  polyadd(x,y)  polyder(K)  polydiv(K,t[:5]+3)  polyfit(x,y,3)  polyint(K)
polymul(K,t)  polysub(x,y)  polyval(t[:9],x)  positive(x)  pow(p,y)  power(p,y)  power(x,2)
power(x,3)  power(i,3)  power(p,0.5)  prod(x)  prod(M,0)  ptp(x)  ptp(M,1)
put(x,w,2.0,inplace=False)|-  put_along_axis(x,w,2.0,0,inplace=False)|-  quantile(x,0.3)
quantile(M,0.3,1)  quantile(x,u[:50])  rad2deg(x)  radians(x)  ravel(np.transpose(M))
ravel_multi_index((s,s),(8,8),'clip')|-  real(c)|-  reciprocal(p)  remainder(x,p)  remainder(i,s)
repeat(x,3)  repeat(M,2,axis=0)  repeat(M,2,axis=1)  repeat(x,s,total_repeat_length=r)|-
reshape(x,(-1,2))|-  resize(x,1500000)  right_shift(i,s)  rint(x)  roll(x,7)  roll(M,(2,3),(0,1))
rollaxis(T,2)|-  roots(w[:10]/1000.0+1)!  rot90(M)|-  round(x)  searchsorted(g,x)  searchsorted(t,x)
searchsorted(g,t)  select([x<0,x<1],[y,p])  setdiff1d(i,w)!  setxor1d(i,j)!  sign(x)  signbit(x)
sin(x)  sinc(x)  sinh(x)  sort(x)  sort(M,0)  sort(M,1)  sort(i)  sort_complex(c)  spacing(x)
split(x,5)|-  sqrt(p)  square(x)  squeeze(M[None])|-  stack((x,y))  stack((x,y),-1)  std(x)
std(M,0)  std(M,1)  subtract(x,y)  sum(x)  sum(M,0)  sum(M,1)  sum(i)  sum(b)  sum(x,where=b)
swapaxes(T,0,2)|-  take(x,i)  take(M,w,0)  take(M,w,1)  take_along_axis(M,J,0)
take_along_axis(M,J,1)  tan(x)  tanh(x)  tensordot(T,P,((1,2),(1,2)))  tensordot(M,N,1)  tile(x,3)
tile(M,(2,2))  trace(M)  transpose(M)|-  trapezoid(x)  trapezoid(x,p)  tri(r)  tril(M)
tril_indices(r)  trim_zeros(x)!  triu(M)  triu_indices(r)  true_divide(x,p)  trunc(x)  union1d(i,j)!
unique(i)!  unique(x)!  unique(i,size=r)|unique(i)  unique(x,size=n)|unique(x)
unique(V.astype(int)%3,axis=0)!  unique_all(i)!  unique_counts(i)!  unique_inverse(i)!
unique_values(i)!  unpackbits(h)  unravel_index(i,(10,100))  unstack(T[:16])|-  unwrap(x)
vander(K,10)  var(x)  var(M,0)  var(M,1)  vdot(x,y)  vdot(c,e)  vecdot(M,N)  vecmat(K,M)
vsplit(M,4)|-  vstack((x,y))  where(b,x,y)  where(b,size=r)|where(b)  where(b)!  zeros(n)
zeros_like(x)
"""

LINALG = """
cholesky(S)  cholesky(P)  cond(A)  cond(T)  cross(V,W)  det(A)  det(T)  diagonal(M)|-  eig(A)
eigh(S)  eigh(P)  eigvals(A)  eigvals(T)  eigvalsh(S)  eigvalsh(P)  inv(A)  inv(T)  lstsq(O,o)
matmul(A,B)  matrix_norm(M)  matrix_norm(T)  matrix_norm(A,ord=2)  matrix_power(A,5)
matrix_power(T,3)  matrix_rank(A)  matrix_rank(T)  matrix_transpose(M)|-  multi_dot([A,B,A])
norm(x)  norm(M)  norm(M,axis=1)  norm(M,1)  norm(A,2)  norm(A,'nuc')  norm(x,3)  norm(x,np.inf)
outer(K,K)  pinv(A)  pinv(O)  pinv(T)  qr(A)  qr(O)  qr(T)  slogdet(A)  slogdet(T)  solve(A,B)
solve(A,k)  solve(T,P)  solve(T,T)  svd(A)  svd(O,full_matrices=False)  svd(T)  svdvals(A)
svdvals(T)  tensordot(M,N,axes=1)  tensorinv(A,ind=1)  tensorsolve(A,k)  trace(M)  vecdot(M,N)
vector_norm(x)  vector_norm(M,axis=0)
"""

FFT = """
fft(c)  fft(x)  fft(c[:999983])  fft(c[:100003])  fft(Z)  fft(Z,axis=0)  fft2(Z)  fft2(M)
fftfreq(n)  fftn(Z)  fftn(T)  fftshift(x)  fftshift(M)  hfft(c)  ifft(c)  ifft(Z)  ifft2(Z)
ifftn(Z)  ifftshift(x)  ihfft(x)  irfft(c)  irfft(Z)  irfft2(Z)  irfftn(Z)  rfft(x)  rfft(M)
rfft(x[:999983])  rfft2(M)  rfftfreq(n)  rfftn(M)  fft(c[:n//3])  fft(Z[:,:331])  fft(Z[:,:512])
rfft(M[:,:997])
"""

LAX = """
abs(x)  acos(u)  acosh(p+1)  add(x,y)  approx_max_k(x,10)  approx_min_k(x,10)  argmax(x,0,'int32')
argmin(M,1,'int32')  asin(u)  asinh(x)  associative_scan(lax.add,x)  associative_scan(lax.mul,M)
atan(x)  atan2(x,y)  atanh(u)  batch_matmul(T,P)  bessel_i0e(x)  bessel_i1e(x)  betainc(p,q,u)
bitcast_convert_type(x,'int32')  bitwise_and(i,j)  bitwise_not(i)  bitwise_or(i,j)  bitwise_xor(i,j)
broadcast(K,(100,))  broadcast_in_dim(K,(100,len(K)),(1,))  broadcasted_iota('int32',(r,r),1)
cbrt(x)  ceil(x)  clamp(0.1,x,1.0)  clz(i)  collapse(M,0,2)  complex(x,y)  concatenate((x,y),0)
conj(c)  conv(C,D,(1,1),'SAME')  conv(C,D,(2,2),'VALID')
conv_general_dilated(C,D,(1,1),'SAME',rhs_dilation=(2,2))
conv_general_dilated_patches(C,(3,3),(1,1),'SAME')
conv_with_general_padding(C,D,(1,1),((1,1),(1,1)),(1,1),(1,1))
conv_transpose(C,D,(2,2),'SAME',dimension_numbers=('NCHW','OIHW','NCHW'))
convert_element_type(x,'int32')  convert_element_type(x,'bfloat16')  cos(x)  cosh(x)
cumlogsumexp(x)  cummax(x)  cummax(M,1)  cummin(x)  cumprod(x)  cumsum(x)  cumsum(M,1)
cumsum(x,reverse=True)  digamma(p)  div(x,p)  div(i,s)  dot(M,N)  dot(x,y)
dot_general(T,P,(((2,),(1,)),((0,),(0,))))  dot_general(M,N,(((0,),(0,)),((),())))
dynamic_index_in_dim(M,3)  dynamic_slice(M,(1,1),(len(M)//2,len(M)//2))
dynamic_slice_in_dim(x,3,len(x)//2)  dynamic_update_index_in_dim(M,K,3,0)
dynamic_update_slice(M,M[:2,:2],(1,1))  dynamic_update_slice_in_dim(x,y[:4],2,0)  eq(x,y)  erf(x)
erf_inv(u)  erfc(x)  exp(x)  exp2(x)  expand_dims(x,(0,))  expm1(x)  fft(c,'FFT',(c.shape[0],))
floor(x)  full((r,r),1.0)  full_like(x,1.0)  ge(x,y)  gt(x,y)  igamma(p,q)  igammac(p,q)
igamma_grad_a(p,q)  imag(c)  index_in_dim(M,3)  index_take(M,(w,),(0,))  integer_pow(x,5)
iota('int32',n)  is_finite(x)  le(x,y)  lgamma(p)  log(p)  log1p(p)  logistic(x)  lt(x,y)
map(lambda a:lax.sin(a),M)  max(x,y)  min(x,y)  mul(x,y)  mulhi(i,j)  ne(x,y)  neg(x)
nextafter(x,y)  optimization_barrier(x)  pad(x,0.0,((2,3,0),))  pad(M,0.0,((1,1,1),(0,0,0)))
polygamma(p*0+2,p)  population_count(i)  pow(p,y)  ragged_dot(M,R,G)  random_gamma_grad(p,q)
real(c)  reciprocal(p)  reduce(x,0.0,lax.add,(0,))  reduce(M,1.0,lax.mul,(1,))  reduce_and(b,(0,))
reduce_max(M,(1,))  reduce_min(M,(0,))  reduce_or(b,(0,))  reduce_precision(x,5,10)
reduce_prod(x,(0,))  reduce_sum(M,(0,))  reduce_window(M,0.0,lax.add,(3,3),(1,1),'SAME')
reduce_window(M,-np.inf,lax.max,(2,2),(2,2),'VALID')  reduce_xor(i,(0,))  rem(x,p)  rem(i,s)
reshape(x,(2,n//2))  rev(x,(0,))  rev(M,(1,))  round(x)  rsqrt(p)
scatter_add(x,w[:,None],t,lax.ScatterDimensionNumbers((),(0,),(0,)))
scatter_max(x,w[:,None],t,lax.ScatterDimensionNumbers((),(0,),(0,)))
scatter(x,i[:,None],y,lax.ScatterDimensionNumbers((),(0,),(0,)))
scatter_add(x,i[:,None],y,lax.ScatterDimensionNumbers((),(0,),(0,)))
scatter_sub(x,w[:,None],t,lax.ScatterDimensionNumbers((),(0,),(0,)))  stack((x,y))  unstack(M)
rng_uniform(0.0,1.0,(n,))  scatter_min(x,i[:,None],y,lax.ScatterDimensionNumbers((),(0,),(0,)))
scatter_mul(x,i[:,None],y,lax.ScatterDimensionNumbers((),(0,),(0,)))  select(b,x,y)  select_n(b,x,y)
shift_left(i,s)  shift_right_arithmetic(i,s)  shift_right_logical(i,s)  sign(x)  sin(x)  sinh(x)
slice(M,(1,1),(3,4))  slice(M,(0,0),M.shape,(2,2))  slice_in_dim(x,1,-1)  sort(x)  sort(M,1)
sort((x,y),num_keys=1)  sort_key_val(x,i)  split(x,(4,len(x)-4))  sqrt(p)  square(x)
squeeze(M[None],(0,))  stop_gradient(x)  sub(x,y)  tan(x)  tanh(x)  tile(M,(2,2))  top_k(x,5)
top_k(M,3)  top_k(x,len(x)//4)  transpose(M,(1,0))  transpose(T,(2,0,1))  zeta(p+1,q)
fori_loop(0,100,lambda m,a:a*0.5+1,x)
while_loop(lambda a:a[0]<100,lambda a:(a[0]+1,a[1]*0.5+1),(0,x))  scan(lambda a,b:(a+b,a),K,M)
cond(len(x)>3,lambda a:a*2,lambda a:a,x)  linalg.cholesky(S)  linalg.cholesky_update(S,k)
linalg.eig(A)  linalg.eigh(S)  linalg.hessenberg(A)  linalg.householder_product(A,k)  linalg.lu(A)
linalg.lu(T)  linalg.qdwh(A)  linalg.qr(A)  linalg.schur(A)  linalg.svd(A)  linalg.svd(T)
linalg.symmetric_product(A,B)  linalg.triangular_solve(S,B,lower=True,left_side=True)
linalg.triangular_solve(P,T,lower=True,left_side=True)  linalg.tridiagonal(S)
linalg.tridiagonal_solve(k,k+9,k,A)
"""

NN = """
celu(x)  dot_product_attention(Q,Q,Q)  elu(x)  gelu(x)  gelu(x,approximate=False)  glu(x)
hard_sigmoid(x)  hard_silu(x)  hard_swish(x)  hard_tanh(x)  identity(x)  leaky_relu(x)  log1mexp(p)
log_sigmoid(x)  log_softmax(x)  log_softmax(M)  logmeanexp(x)  logsumexp(x)  logsumexp(M,1)
logsumexp(M,0)  mish(x)  one_hot(i[:999],100)  relu(x)  relu6(x)  selu(x)  sigmoid(x)  silu(x)
soft_sign(x)  softmax(x)  softmax(M)  softmax(M,0)  softplus(x)  sparse_plus(x)  sparse_sigmoid(x)
squareplus(x)  standardize(x)  standardize(M)  swish(x)  tanh(x)
"""

SPECIAL = """
bernoulli(20)  bessel_jn(x[:999],v=5)|-  beta(p,q)  betainc(p,q,u)  betaln(p,q)  boxcox(p,0.3)
boxcox1p(p,0.3)  comb(p+3,u)  dawsn(x)  digamma(p)  entr(u)  erf(x)  erfc(x)  erfcx(x)  erfinv(u)
exp1(p)  expi(p)  expit(x)  expn(2,p)  factorial(s)  fresnel(x)  gamma(p)  gammainc(p,q)
gammaincc(p,q)  gammaln(p)  gammasgn(x)  hyp1f1(p,q+3,u)  hyp2f1(p,q,q+3,u-0.5)  i0(x)  i0e(x)
i1(x)  i1e(x)  kl_div(u,v)  log_ndtr(x)  log_softmax(M,axis=1)  loggamma(p)  logit(u)  logsumexp(x)
logsumexp(M,1)  multigammaln(p+3,3)  ndtr(x)  ndtri(u)  owens_t(x,y)  poch(p,q)  polygamma(2,p)
rel_entr(u,v)  sici(x)  softmax(M,axis=1)  spence(p)
sph_harm_y(s[:999],s[:999]*0,p[:999],q[:999],n_max=8)|sph_harm_y(s[:999],s[:999]*0,p[:999],q[:999])
wofz(c)  xlog1py(p,q)  xlogy(p,q)  zeta(p+1,q)
"""

SCIPY_LINALG = """
block_diag(A,B)  cho_factor(S)  cho_solve((S,True),B)  cholesky(S)  circulant(K)  companion(k+3)
convolution_matrix(k,100)  det(A)  dft(len(A))  eigh(S)  eigh_tridiagonal(k,k[1:],eigvals_only=True)
expm(A/30)  expm(T/30)|-  expm_frechet(A/30,B/30)  fiedler(K)  fiedler_companion(k+3)
funm(A,lambda a:a*1.0)  hadamard(len(A))  hankel(K)  helmert(len(A))  hessenberg(A)  hilbert(len(A))
inv(A)  invhilbert(8)  invpascal(16)  leslie(k,k[1:])  lu(A)  lu_factor(A)
lu_solve((A,w[:len(A)]*0),B)  pascal(16)  polar(A)  qr(A)  qr_multiply(A,B)  schur(A)  solve(A,B)
solve(S,B,assume_a='pos')  solve_sylvester(A[:64,:64],B[:64,:64],S[:64,:64])
solve_triangular(S,B,lower=True)  sqrtm(S[:64,:64])  svd(A)  toeplitz(K)
"""

SCIPY = """
stats.mode(i)  stats.rankdata(x)  stats.sem(x)  signal.convolve(x,t)  signal.convolve(M,A[:5,:5])
signal.convolve2d(M,A[:7,:7])  signal.correlate(x,t)  signal.correlate2d(M,A[:7,:7])
signal.csd(x,y)  signal.detrend(x)  signal.fftconvolve(x,y)  signal.stft(x)  signal.welch(x)
ndimage.map_coordinates(M,[X,X],1)  ndimage.map_coordinates(M,[X,X],0)  integrate.trapezoid(x,p)
fft.dct(x)  fft.dct(M)  fft.dctn(M)  fft.idct(x)  fft.idctn(M)  cluster.vq.vq(O,O[:30])
stats.bernoulli.logpmf(b,0.3)  stats.bernoulli.cdf(b,0.3)  stats.beta.logpdf(u,p,q)
stats.beta.cdf(u,p,q)  stats.binom.logpmf(s,9,u)  stats.betabinom.logpmf(s,9,p,q)
stats.cauchy.logpdf(x)  stats.cauchy.ppf(u)  stats.chi2.logpdf(p,3)  stats.chi2.cdf(p,3)
stats.expon.logpdf(p)  stats.gamma.logpdf(p,q)  stats.gamma.cdf(p,q)  stats.gennorm.logpdf(x,p)
stats.geom.logpmf(s,u)  stats.gumbel_l.logpdf(x)  stats.gumbel_r.cdf(x)  stats.laplace.logpdf(x)
stats.laplace.cdf(x)  stats.logistic.logpdf(x)  stats.logistic.ppf(u)  stats.nbinom.logpmf(s,p,u)
stats.multivariate_normal.logpdf(V,V[0],np.eye(3))  stats.norm.logpdf(x)  stats.norm.cdf(x)
stats.norm.ppf(u)  stats.norm.logcdf(x)  stats.pareto.logpdf(p+1,3)  stats.poisson.logpmf(s,p)
stats.poisson.cdf(s,p)  stats.t.logpdf(x,p)  stats.truncnorm.logpdf(u,-1,2)
stats.truncnorm.cdf(u,-1,2)  stats.uniform.logpdf(u)  stats.vonmises.logpdf(x,p)
stats.wrapcauchy.logpdf(p,0.5)  stats.norm.sf(x)
stats.dirichlet.logpdf(np.array([0.2,0.3,0.5]),np.array([1.0,2.0,3.0]))  special.logsumexp(M)
"""

RANDOM = """
ball(key,3,2.0,(10**5,))|-  bernoulli(key,0.3,x.shape)|default_rng(0).binomial(1,0.3,x.shape)
beta(key,p,q)|default_rng(0).beta(p,q)  binomial(key,10.0,u)|default_rng(0).binomial(10,u)
binomial(key,1000.0,u)|default_rng(0).binomial(1000,u)
bits(key,x.shape)|default_rng(0).integers(0,2**32,x.shape,'uint32')  categorical(key,M)|-
cauchy(key,x.shape)|default_rng(0).standard_cauchy(x.shape)
chisquare(key,p)|default_rng(0).chisquare(p)  choice(key,x,x.shape)|default_rng(0).choice(x,x.shape)
choice(key,x,(5,),False)|-  choice(key,x,(1000,),p=u/u.sum())|-
dirichlet(key,t[:3]*0+1,(10**5,))|default_rng(0).dirichlet([1,1,1],10**5)
double_sided_maxwell(key,0.0,1.0,x.shape)|-
exponential(key,x.shape)|default_rng(0).standard_exponential(x.shape)
f(key,p,q)|default_rng(0).f(p,q)  fold_in(key,3)|-  gamma(key,p)|default_rng(0).gamma(p)
gamma(key,2.0,x.shape)|default_rng(0).gamma(2.0,size=x.shape)  generalized_normal(key,p)|-
geometric(key,u)|default_rng(0).geometric(u)
gumbel(key,x.shape)|default_rng(0).gumbel(size=x.shape)
laplace(key,x.shape)|default_rng(0).laplace(size=x.shape)  loggamma(key,p)|-
logistic(key,x.shape)|default_rng(0).logistic(size=x.shape)
lognormal(key,1.0,x.shape)|default_rng(0).lognormal(size=x.shape)  maxwell(key,x.shape)|-
multinomial(key,100.0,u[:10]/u[:10].sum(),shape=(1000,10))|-
multivariate_normal(key,t[:3],np.eye(3),(99999,))|-
normal(key,x.shape)|default_rng(0).standard_normal(x.shape,'float32')  orthogonal(key,64)|-
pareto(key,p)|default_rng(0).pareto(p)  permutation(key,x)|default_rng(0).permutation(x)
permutation(key,M)|default_rng(0).permutation(M)
permutation(key,M,independent=True)|default_rng(0).permuted(M,0)
poisson(key,p)|default_rng(0).poisson(p)
poisson(key,30.0,x.shape)|default_rng(0).poisson(30.0,x.shape)  rademacher(key,x.shape)|-
randint(key,x.shape,0,1000)|default_rng(0).integers(0,1000,x.shape,'int32')
rayleigh(key,2.0,x.shape)|default_rng(0).rayleigh(2.0,x.shape)  split(key,1000)|-
t(key,p)|default_rng(0).standard_t(p)
triangular(key,0.0,0.5,1.0,x.shape)|default_rng(0).triangular(0,0.5,1,x.shape)
truncated_normal(key,-1.0,2.0,x.shape)|-
uniform(key,x.shape)|default_rng(0).random(x.shape,'float32')
wald(key,p)|default_rng(0).wald(p,1.0)
weibull_min(key,1.0,2.0,x.shape)|default_rng(0).weibull(2.0,x.shape)
"""

IMAGE = """
resize(M,(500,500),'linear')  resize(M,(500,500),'cubic')  resize(M,(1500,1500),'nearest')
resize(M,(1500,1500),'lanczos3')
scale_and_translate(M,(500,500),(0,1),np.array([0.5,0.5]),np.array([1.0,2.0]),'linear')
"""

OPS = """
segment_max(x,i,r)  segment_min(x,i,r)  segment_prod(x,i,r)  segment_sum(x,i,r)  segment_sum(M,w,r)
"""

CALLS = {
    "numpy": NUMPY,
    "numpy.linalg": LINALG,
    "numpy.fft": FFT,
    "lax": LAX,
    "nn": NN,
    "scipy.special": SPECIAL,
    "scipy.linalg": SCIPY_LINALG,
    "scipy": SCIPY,
    "random": RANDOM,
    "image": IMAGE,
    "ops": OPS,
}
# Functions without a call: they are about types, shapes, settings, keys or other data than arrays,
# make programs of functions, speak to other devices, or are of use to lower levels only.
UNSWEPT = {
    "numpy": """
broadcast_shapes einsum_path from_dlpack frombuffer fromfile fromiter frompyfunc fromstring
iscomplexobj isdtype isrealobj isscalar issubdtype load mask_indices ndim promote_types result_type
shape size vectorize
""",
    "lax": """
after_all all_gather all_to_all axis_index axis_size broadcast_like broadcast_shapes
broadcast_to_rank composite conv_dimension_numbers conv_general_dilated_local
conv_general_permutations conv_general_shape_tuple conv_shape_tuple conv_transpose_shape_tuple
create_token dce_sink dtype empty gather padtype_to_pads pbroadcast pcast pmax pmean pmin ppermute
precv psend pshuffle psum psum_scatter pswapaxes ragged_all_to_all ragged_dot_general
reduce_window_shape_tuple rng_bit_generator scaled_dot scatter_apply shape_as_value stage
with_sharding_constraint
""",
    # dm_pix's functions, which jax.image lacks: the suite ``image`` compares them with dm_pix
    "image": """
adjust_brightness adjust_contrast adjust_gamma adjust_hue adjust_saturation affine_transform
center_crop depth_to_space elastic_deformation extract_patches flat_nd_linear_interpolate
flat_nd_linear_interpolate_constant flip_left_right flip_up_down gaussian_blur hsl_to_rgb hsv_to_rgb
mae mse pad_to_size psnr random_brightness random_contrast random_crop random_flip_left_right
random_flip_up_down random_gamma random_hue random_saturation resize_with_crop_or_pad
rgb_to_grayscale rgb_to_hsl rgb_to_hsv rmse rot90 rotate simse solarize space_to_depth ssim
""",
    "nn": "get_scaled_dot_general_config scaled_dot_general scaled_matmul",
    "random": "PRNGKey clone key key_data key_dtype key_impl wrap_key_data",
}
# What NumPy and SciPy have nothing like, unless a line says so.
ALONE = {"lax", "nn", "image", "ops"}
# Results that are right in more than one form: signs, phases, orders, random bits of our own.
FREE = (
    "eig",
    "svd",
    "schur",
    "argpartition",
    "partition",
    "roots",
    "householder",
    "empty",
    "qr",
    "hessenberg",
    "tridiagonal",
    "polar",
    "orthogonal",
)
