"""`python -m engine.training …`"""

import os

# Large tensors come and go in every update. In pages of 4 KiB the kernel took as long to map them as the model to
# compute: 1.3 seconds an update on two cores, 0.75 with large pages. Torch reads this when it first allocates.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

from engine.training.cli import main

main()
