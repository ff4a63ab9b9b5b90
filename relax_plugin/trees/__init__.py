"""Tree ensembles looked into: their arrays, cells and aims, quick answers, and the proved optimum."""
