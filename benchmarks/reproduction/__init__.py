"""The experiments of the ReLAX paper, repeated with every method of the registry (`relax-plugin reproduce`)."""
