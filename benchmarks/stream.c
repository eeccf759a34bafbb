/* The triad of J. McCalpin's STREAM (https://www.cs.virginia.edu/stream), without its other kernels: prints the seconds
   of each repetition. NUMBERS is the length of each array. */
#include <omp.h>
#include <stdio.h>

static double a[NUMBERS], b[NUMBERS], c[NUMBERS];

int main(void) {
  const double scalar = 3.0;
#pragma omp parallel for
  for (long i = 0; i < NUMBERS; i++) {
    a[i] = 0.0;
    b[i] = 2.0;
    c[i] = 1.0;
  }
  for (int repetition = 0; repetition < 20; repetition++) {
    double seconds = omp_get_wtime();
#pragma omp parallel for
    for (long i = 0; i < NUMBERS; i++)
      a[i] = b[i] + scalar * c[i];
    seconds = omp_get_wtime() - seconds;
    printf("%.9f\n", seconds);
  }
  for (long i = 0; i < NUMBERS; i++)
    if (a[i] != 5.0)
      return 1;
  return 0;
}
