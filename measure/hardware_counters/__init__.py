"""What `python -m measure --sections hardware-counters` is made of: kernels counted by NVIDIA's Nsight Compute."""
