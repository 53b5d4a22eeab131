"""The training commands of the documents, for one environment: on one node, or on several that Ray binds together."""
