"""What the systems of actor-critic with experience replay have in common.

After ``T_MAX`` frames of an environment comes one update on them and ``N_TIMES_REPLAY`` on replayed
segments of at most as many steps: each frame is learned from five times, whether the segments of
several environments make up one batch, as here, or each has an update of its own, as in PFRL.
"""

NUM_CELLS = (64, 64)
T_MAX = 20
N_TIMES_REPLAY = 4
REPLAY_CAPACITY = 50_000
REPLAY_START_SIZE = 1_000
GAMMA, BETA = 0.99, 0.01
TRUNCATION_THRESHOLD, TRUST_REGION_DELTA = 10.0, 1.0
LEARNING_RATE, RMSPROP_EPS, MAX_GRAD_NORM = 7e-4, 1e-5, 10.0
REWARD_SCALE = 0.1
