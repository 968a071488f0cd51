"""Pattern matching over the rows of each key, in the order of event time.

Rows and a pattern come in; matches go out once later rows cannot change them.
"""
