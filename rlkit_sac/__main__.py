"""``python -m rlkit_sac``, the same as the command ``rlkit-sac``."""

from rlkit_sac.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
