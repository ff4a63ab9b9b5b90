import sys; sys.path.insert(0,"/tmp/p19")
import pickle,time,numpy as np,torch
from trees19 import Boosted
src=open("/tmp/p19/wm2.py").read().split("for name,(inp")[0]; exec(src)
def netpair(inp,t,V,**k):
    return net(inp,t,np.concatenate([inp,V]),**k)
for name,(inp,t,inpV,T,v,V,cat) in out.items():
    if cat.any():
        oh=[np.unique(v[:,j]) for j in np.flatnonzero(cat)]
        f=lambda x:np.column_stack([x[:,~cat]]+[x[:,[j]]==u for j,u in zip(np.flatnonzero(cat),oh)])
    else: f=lambda x:x
    A,B=f(v),f(V)
    K=dict(subsample=.7,max_features=.5)
    p=netpair(inp,t,inpV,hidden=(128,),lr=5e-3); pin,pv=p[:len(inp)],p[len(inp):]
    sl=slice(0,1) if t.shape[1]==2 else slice(None)
    ex=(lambda q:np.column_stack([q,-q])) if t.shape[1]==2 else (lambda q:q)
    tr=ex(Boosted(**K).fit(A,t[:,sl]).predict(B))
    both=pv+ex(Boosted(**K).fit(A,(t-pin)[:,sl]).predict(B))
    b2=ex(Boosted(rounds=60,rate=.1,**K).fit(A,(t-pin)[:,sl]).predict(B))+pv
    # trees first then net
    m=Boosted(rounds=60,rate=.15,**K).fit(A,t[:,sl]); ti=ex(m.predict(A)); tv=ex(m.predict(B))
    nn_=netpair(inp,t-ti,inpV,hidden=(128,),lr=5e-3)[len(inp):]
    print(f"{name:18s} net {r2(pv,T,t):.3f} trees {r2(tr,T,t):.3f} mean {r2((pv+tr)/2,T,t):.3f} net>trees {r2(both,T,t):.3f} short {r2(b2,T,t):.3f} trees>net {r2(tv+nn_,T,t):.3f}",flush=True)
