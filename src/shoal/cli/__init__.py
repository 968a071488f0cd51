"""The command line `shoal`: its options, and what its commands share; the commands are in `shoal.cli.commands`.

Options and files of the user come in; text or JSON on stdout, progress on stderr and an exit code go out. Commands use
sessions and the catalogs, and hold no logic of their own.
"""
