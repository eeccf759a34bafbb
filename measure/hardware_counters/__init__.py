"""What `python -m measure --sections counters` is made of: kernels counted by NVIDIA's Nsight Compute."""
