"""The command line `shoal`: one module per command, and a few that commands share.

Options and files of the user come in; text or JSON on stdout, progress on stderr and an exit code go out. Commands use
sessions and the catalogs, and hold no logic of their own.
"""
