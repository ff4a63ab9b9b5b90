import sys; sys.path.insert(0,"/tmp/p19")
import pickle,time,numpy as np,torch
from trees19 import Boosted
src=open("/tmp/p19/wm2.py").read().split("for name,(inp")[0]; exec(src)
for name,(inp,t,inpV,T,v,V,cat) in out.items():
    if t.shape[1]!=2: continue
    if cat.any():
        oh=[np.unique(v[:,j]) for j in np.flatnonzero(cat)]
        f=lambda x:np.column_stack([x[:,~cat]]+[x[:,[j]]==u for j,u in zip(np.flatnonzero(cat),oh)])
    else: f=lambda x:x
    A,B=f(v),f(V); g=T[:,0]; near=np.abs(g)<np.quantile(np.abs(g),.7)
    def report(p): 
        return f"sign {np.mean((p>0)==(g>0)):.3f} corr {np.corrcoef(p[near],g[near])[0,1]:.3f} rmse {np.sqrt(((p-g)[near]**2).mean())/g[near].std():.2f}"
    s0=np.median(np.abs(t[:,0]))
    for tag,tf,inv in [("id",lambda x:x,lambda x:x),("asinh",lambda x:np.arcsinh(x/s0*2)*s0/2,lambda y:np.sinh(np.clip(y*2/s0,-5,5))*s0/2),("tanh",lambda x:np.tanh(x/s0)*s0,lambda y:np.arctanh(np.clip(y/s0,-.999,.999))*s0)]:
        y=tf(t[:,:1])
        tr=inv(Boosted(subsample=.7,max_features=.5).fit(A,y).predict(B)[:,0])
        ne=inv(net(inp,y,inpV,(128,))[:,0])
        print(f"{name:18s} {tag:6s} s0 {s0:.2f} |g| {np.abs(g).mean():.2f} trees {report(tr)}   net {report(ne)}",flush=True)
