// UMAB-G-A on K arms, written out by hand: what the generic kernel of umab/engine/gpu.py is measured against.
// One thread plays one trial, from the same stream and with the same arithmetic, so that it must find the same regret,
// bit for bit. Compile it with contraction off.

#ifndef K
#define K 10
#endif

constexpr double LARGEST = 1.7976931348623157e308;
constexpr double TINY = 0x1p-1000;

struct Generator { unsigned long long low, high, add_low, add_high; };

__device__ __forceinline__ double next_uniform(Generator& g) {
    const unsigned long long m_low = 0x4385DF649FCCF645ull, m_high = 0x2360ED051FC65DA4ull;
    unsigned long long low = g.low * m_low;
    unsigned long long high = __umul64hi(g.low, m_low) + g.low * m_high + g.high * m_low;
    g.low = low + g.add_low;
    g.high = high + g.add_high + (g.low < low);
    unsigned long long x = g.low ^ g.high;
    unsigned turn = g.high >> 58;
    x = (x >> turn) | (x << ((64 - turn) & 63));
    return (double)(x >> 11) * 0x1p-53;
}

__device__ __forceinline__ double shift_of(const double* x, double guess) {
    double shift = fmax(1.0, fmin(guess, (double)K));
    for (int step_number = 0; step_number < 100; step_number++) {
        double a[4] = {0, 0, 0, 0}, b[4] = {0, 0, 0, 0}, c[4] = {0, 0, 0, 0};
#pragma unroll
        for (int k = 0; k < K / 4 * 4; k++) {
            double r = 1.0 / (x[k] + shift), s = r * r;
            a[k & 3] += r, b[k & 3] += s, c[k & 3] += s * r;
        }
#pragma unroll
        for (int k = K / 4 * 4; k < K; k++) {
            double r = 1.0 / (x[k] + shift), s = r * r;
            a[0] += r, b[0] += s, c[0] += s * r;
        }
        double total = (a[0] + a[1]) + (a[2] + a[3]);
        double slope = (b[0] + b[1]) + (b[2] + b[3]), curve = (c[0] + c[1]) + (c[2] + c[3]);
        double step = total * (total - 1.0) / slope;
        if (fabs(step) < 0.25 * shift) step += (curve / slope - slope / total) * step * step;
        shift = fmax(1.0, shift + step);
        if (fabs(step) <= 1e-5 * shift) break;
    }
    return shift;
}

extern "C" __global__ void umab_g_a(
    long long n_trials, long long n_rounds, const long long* generators, const double* losses, const double* costs,
    const double* best, double* regret, unsigned char* arms
) {
    long long trial = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (trial >= n_trials) return;
    unsigned long long word[8];
    for (int k = 0; k < 8; k++) word[k] = generators[k * n_trials + trial];
    Generator g = {word[0] | word[1] << 32, word[2] | word[3] << 32, word[4] | word[5] << 32, word[6] | word[7] << 32};
    double p[K], offset[K], sum[K];
    for (int k = 0; k < K; k++) p[k] = 1.0 / K, offset[k] = 0.0, sum[k] = 0.0;
    double clip = -1.0, squares = 0.0, error = 0.0, cost = 0.0, unit = 0.5, total = 0.0;
    for (long long t = 0; t < n_rounds; t++) {
        double uniform = next_uniform(g), cumulative = 0.0;
        int arm = -1;
        for (int k = 0; k < K && arm < 0; k++) {
            cumulative += p[k];
            if (uniform < cumulative) arm = k;
        }
        if (arm < 0) {
            arm = 0;
            for (int k = 1; k < K; k++) if (p[k] > p[arm]) arm = k;
        }
        total += costs[t * K + arm];
        regret[trial * n_rounds + t] = total - best[t];
        arms[trial * n_rounds + t] = arm;

        double loss = losses[t * K + arm], clipped = fmax(2.0 * clip, loss), shrink = 1.0;
        clip = fmin(clip, clipped);
        if (fabs(clipped * unit) >= 1.0) {
            int exponent;
            frexp(clipped, &exponent);
            double fitted = ldexp(1.0, min(-exponent, 1021));
            shrink = fitted / unit;
            unit = fitted;
            for (int k = 0; k < K; k++) sum[k] *= shrink;
        }
        double scaled = clipped * unit;
        squares = squares * shrink * shrink;
        error = error * shrink * shrink;
        double corrected = scaled * scaled - error, raised = squares + corrected;
        error = (raised - squares) - corrected;
        squares = raised;
        double estimate = scaled / fmax(p[arm], 0x1p-900);
        sum[arm] += estimate;
        double scaled_clip = clip * unit;
        double rate = fmin(0.25 * sqrt(K / (K * scaled_clip * scaled_clip + squares)), LARGEST);
        cost = cost * shrink + fabs(estimate * offset[arm]);

        int top = 0;
        double lowest = sum[0], norm = 0.0, product = 0.0;
#pragma unroll
        for (int k = 0; k < K; k++) {
            if (sum[k] < lowest) top = k, lowest = sum[k];
            double square = p[k] * p[k];
            norm += square;
            product += square * sum[k];
        }
        double guess = (1.0 - rate * (product - lowest * norm)) / fmax(norm, TINY);
#pragma unroll
        for (int k = 0; k < K; k++) p[k] = rate * (sum[k] - lowest);
        double shift = shift_of(p, guess);
        double explored = 1.0 / (2.0 * K * K + sqrt(2.0 * cost) / sqrt(unit)), n_raised = 0.0;
#pragma unroll
        for (int k = 0; k < K; k++) {
            double probability = fmax(1.0 / (p[k] + shift), TINY);
            double lifted = probability < explored ? 1.0 : 0.0;
            offset[k] = lifted;
            p[k] = probability + explored * lifted;
            n_raised += lifted;
        }
        offset[top] = -n_raised;
        p[top] -= explored * n_raised;
    }
}
