"""What the systems of actor-critic with experience replay have in common.

Networks of tanh units; PFRL's trust region, over log-probabilities. After ``T_MAX`` frames of an
environment comes one update on them and ``N_TIMES_REPLAY`` on replayed segments of at most as many
steps: each frame is learned from five times. Ours has ``NUM_ENVS`` environments, whose segments
make up one batch; PFRL has one, and as many times the steps of its optimizer.
"""

NUM_ENVS = 8
NUM_CELLS = (64, 64)
T_MAX = 20
N_TIMES_REPLAY = 4
REPLAY_CAPACITY = 50_000
REPLAY_START_SIZE = 1_000
GAMMA, BETA = 0.99, 0.01
TRUNCATION_THRESHOLD, TRUST_REGION_DELTA = 10.0, 1.0
LEARNING_RATE, RMSPROP_ALPHA, RMSPROP_EPS, MAX_GRAD_NORM = 7e-4, 0.99, 1e-5, 10.0
REWARD_SCALE = 0.1
