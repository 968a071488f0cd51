"""The query languages: Python flows, SQL, YAML graph files and DCEP-Sim's operators.

In: what a user wrote. Out: `Query` and `Graph` values of the model, or an error that says where the mistake is.
All languages build queries through `Flow`, so that every check is made in one place.
"""
