"""Which format each operator of a transformer uses: strategies by name or file, and decisions from activation
statistics.
"""
