"""What is measured of runs, on whatever runtime: fitted costs, profiles in files, and where the time of results goes.

Turns and epochs come in; numbers that the simulated runtime, `shoal profile` and `shoal validate` use go out.
"""
