"""Boosted small trees, many outputs, as tables of bits."""
import numpy as np, time
from sklearn.tree import DecisionTreeRegressor
class Boosted:
    def __init__(self, rounds=100, leaves=8, rate=.15, min_leaf=3, subsample=1.0, max_features=None, seed=0):
        self.rounds,self.leaves,self.rate,self.min_leaf,self.subsample,self.max_features,self.seed=rounds,leaves,rate,min_leaf,subsample,max_features,seed
    def fit(self,X,y):
        X=np.ascontiguousarray(X,dtype=np.float32); self.base=y.mean(0); r=y-self.base; rng=np.random.default_rng(self.seed)
        self.trees=[]
        n=len(X)
        for k in range(self.rounds):
            t=DecisionTreeRegressor(max_leaf_nodes=self.leaves,min_samples_leaf=self.min_leaf,max_features=self.max_features,random_state=int(rng.integers(2**31)))
            if self.subsample<1:
                i=rng.permutation(n)[:int(self.subsample*n)]; t.fit(X[i],r[i],check_input=False)
            else: t.fit(X,r,check_input=False)
            p=t.tree_.predict(X).reshape(r.shape)
            r=r-self.rate*p; self.trees.append(t.tree_)
        return self
    def predict(self,X):
        X=np.ascontiguousarray(X,dtype=np.float32); out=np.tile(self.base,(len(X),1)).astype(float)
        for t in self.trees: out+=self.rate*t.predict(X).reshape(out.shape)
        return out
if __name__=="__main__":
    import pickle
    out=pickle.load(open("/tmp/p19/wm.pkl","rb"))
    def r2(p,T): return 1-((p-T)**2).sum()/((T-T.mean(0))**2).sum()
    for name,(inp,t,inpV,T,v,V,cat) in out.items():
        line=[]
        if cat.any():
            # one-hot columns of inputs for categories: use inp's
            oh=[np.unique(v[:,j]) for j in np.flatnonzero(cat)]
            f=lambda x:np.column_stack([x[:,~cat]]+[x[:,[j]]==u for j,u in zip(np.flatnonzero(cat),oh)])
        else: f=lambda x:x
        A,B=f(v),f(V)
        for k in [dict(),dict(subsample=.7),dict(subsample=.7,max_features=.5),dict(rounds=150,rate=.1,subsample=.7,max_features=.5),dict(leaves=4),dict(rounds=60,rate=.25,subsample=.7,max_features=.5),dict(min_leaf=1,subsample=.7,max_features=.5)]:
            c=time.process_time(); m=Boosted(**k).fit(A,t[:,:1] if t.shape[1]==2 else t); c=time.process_time()-c
            p=m.predict(B); p=np.column_stack([p,-p]) if t.shape[1]==2 else p
            line.append(f"{r2(p,T):.3f}({c:.2f})")
        print(name," ".join(line),flush=True)
