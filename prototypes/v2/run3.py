import sys; sys.path[:0]=["/tmp/p19","/tmp/p19/v2"]
from dev import *; import imagined; from imagined import Imagined; from mean import MeanWorld
import json
class I2(Imagined):
    def _fit(self,values,rng):
        if self.world=="mean":
            k=imagined.NetworkWorld; imagined.NetworkWorld=MeanWorld; self.world="net"
            try: super()._fit(values,rng)
            finally: imagined.NetworkWorld=k; self.world="mean"
        else: super()._fit(values,rng)
        print("   rms",getattr(self,"rms_",None))
T=sys.argv[1].split(","); opts=[json.loads(a) for a in sys.argv[2:]] or [{}]
for t in T:
    compare(t,[("greedy",lambda k:make_explainer("greedy",k.model,k.space,goal=k.goal))]+[(str(o)[:60],lambda k,o=o:I2(k.model,k.space,goal=k.goal,**o)) for o in opts])
