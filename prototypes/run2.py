import sys; sys.path.insert(0,"/tmp/p19")
from dev import *; import proto; from proto import Imagined; from treeworld import TreeWorld
from relax_plugin.world_model.model import WorldModel
class ImaginedTrees(Imagined):
    def _fit(self,values,rng):
        proto.WorldModel=TreeWorld
        try: super()._fit(values,rng)
        finally: proto.WorldModel=WorldModel
    def _residual(self,seen,answer):
        t=self.world_.targets(answer); self.sigma_=0.5*float(t.std())
T=sys.argv[1].split(",")
for t in T:
    compare(t,[("greedy",lambda k:make_explainer("greedy",k.model,k.space,goal=k.goal)),
      ("trees12",lambda k:ImaginedTrees(k.model,k.space,goal=k.goal)),("trees12 stop.003",lambda k:ImaginedTrees(k.model,k.space,goal=k.goal,stop=.003)),("trees40",lambda k:ImaginedTrees(k.model,k.space,goal=k.goal,rows=36,stop=.001))])
