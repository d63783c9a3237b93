"""How well an attack did: pictures, membership, and what a defence bought."""

from recondite.metrics.images import Scores, match_order, mse, psnr, score, ssim

__all__ = ["Scores", "match_order", "mse", "psnr", "score", "ssim"]
