/* UMAB-G-A in C: exactly the loop of umab, alternating between two trials, with the same start and the same order of
   summation, so that the trajectories agree bit for bit. Built with -ffp-contract=off: fused multiply-add would round differently. */

#include <math.h>
#include <stdint.h>

static const double FLOOR = 0x1p-1000, SMALLEST_PROPENSITY = 0x1p-900;

static double larger(double a, double b) { return b > a ? b : a; }
static double smaller(double a, double b) { return b < a ? b : a; }

static void reciprocal_sums(const double *x, int64_t n_arms, double shift, double *total, double *squares,
                            double *cubes) {
    double sum = 0, error = 0, square_sum = 0, cube_sum = 0;
    for (int64_t start = 0; start < n_arms; start += 64) {
        int64_t stop = start + 64 < n_arms ? start + 64 : n_arms;
        int64_t quads = start + (stop - start) / 4 * 4;
        double a0 = 0, a1 = 0, a2 = 0, a3 = 0, b0 = 0, b1 = 0, b2 = 0, b3 = 0, c0 = 0, c1 = 0, c2 = 0, c3 = 0;
        for (int64_t k = start; k < quads; k += 4) {
            double p0 = 1 / (x[k] + shift), p1 = 1 / (x[k + 1] + shift);
            double p2 = 1 / (x[k + 2] + shift), p3 = 1 / (x[k + 3] + shift);
            double s0 = p0 * p0, s1 = p1 * p1, s2 = p2 * p2, s3 = p3 * p3;
            a0 += p0, a1 += p1, a2 += p2, a3 += p3;
            b0 += s0, b1 += s1, b2 += s2, b3 += s3;
            c0 += s0 * p0, c1 += s1 * p1, c2 += s2 * p2, c3 += s3 * p3;
        }
        for (int64_t k = quads; k < stop; k++) {
            double p0 = 1 / (x[k] + shift), s0 = p0 * p0;
            a0 += p0, b0 += s0, c0 += s0 * p0;
        }
        double corrected = ((a0 + a1) + (a2 + a3)) - error, raised = sum + corrected;
        error = (raised - sum) - corrected;
        sum = raised;
        square_sum += (b0 + b1) + (b2 + b3);
        cube_sum += (c0 + c1) + (c2 + c3);
    }
    *total = sum;
    *squares = square_sum;
    *cubes = cube_sum;
}

static int64_t log_barrier(const double *loss_sums, int64_t n_arms, double rate, double *p) {
    int64_t leader = 0;
    double lowest = loss_sums[0], squares_of_p = 0, products = 0;
    for (int64_t k = 0; k < n_arms; k++) {
        if (loss_sums[k] < lowest) leader = k, lowest = loss_sums[k];
        double square = p[k] * p[k];
        squares_of_p += square;
        products += square * loss_sums[k];
    }
    double guess = (1 - rate * (products - lowest * squares_of_p)) / larger(squares_of_p, FLOOR);
    for (int64_t k = 0; k < n_arms; k++) p[k] = rate * (loss_sums[k] - lowest);
    double shift = larger(1, smaller(guess, (double)n_arms));
    for (int i = 0; i < 100; i++) {
        double total, squares, cubes;
        reciprocal_sums(p, n_arms, shift, &total, &squares, &cubes);
        double step = total * (total - 1) / squares;
        if (fabs(step) < 0.25 * shift) step += (cubes / squares - squares / total) * step * step;
        shift = larger(1, shift + step);
        if (fabs(step) <= 1e-5 * shift) break;
    }
    for (int64_t k = 0; k < n_arms; k++) p[k] = larger(1 / (p[k] + shift), FLOOR);
    return leader;
}

static int64_t likeliest(const double *p, int64_t n_arms) {
    int64_t top = 0;
    for (int64_t k = 1; k < n_arms; k++)
        if (p[k] > p[top]) top = k;
    return top;
}

static void explore(double *p, int64_t n_arms, int64_t top, double rate, double *offsets) {
    double n_raised = 0;
    for (int64_t k = 0; k < n_arms; k++) {
        double raised = p[k] < rate ? 1 : 0;
        offsets[k] = raised;
        p[k] += rate * raised;
        n_raised += raised;
    }
    offsets[top] = -n_raised;
    p[top] -= rate * n_raised;
}

static int64_t draw(const double *p, int64_t n_arms, double uniform) {
    double cumulative = 0;
    for (int64_t k = 0; k < n_arms; k++) {
        cumulative += p[k];
        if (uniform < cumulative) return k;
    }
    return likeliest(p, n_arms);
}

typedef struct {
    double clip, unit, square_sum, square_sum_error, exploration_cost, total;
} State;

void run(int64_t n_trials, int64_t n_rounds, int64_t n_arms, const double *uniforms, const double *losses,
         const double *costs, const double *best, double *vectors, double *regret, int32_t *arms) {
    double n = (double)n_arms, rate = 0.25;
    for (int64_t first = 0; first < n_trials; first += 2) {
        int64_t last = first + 2 < n_trials ? first + 2 : n_trials;
        State states[2];
        for (int64_t trial = first; trial < last; trial++) {
            double *loss_sums = vectors + (trial - first) * 3 * n_arms, *p = loss_sums + n_arms, *offsets = p + n_arms;
            for (int64_t k = 0; k < n_arms; k++) loss_sums[k] = 0, p[k] = 1 / n, offsets[k] = 0;
            states[trial - first] = (State){.clip = -1, .unit = 0.5};
        }
        for (int64_t t = 0; t < n_rounds; t++) {
            for (int64_t trial = first; trial < last; trial++) {
                State *s = states + (trial - first);
                double *loss_sums = vectors + (trial - first) * 3 * n_arms, *p = loss_sums + n_arms, *offsets = p + n_arms;
                int64_t arm = draw(p, n_arms, uniforms[trial * n_rounds + t]);
                s->total += costs[t * n_arms + arm];
                arms[trial * n_rounds + t] = (int32_t)arm;
                regret[trial * n_rounds + t] = s->total - best[t];

                double clipped = larger(2 * s->clip, losses[t * n_arms + arm]);
                s->clip = smaller(s->clip, clipped);
                if (!(fabs(clipped * s->unit) < 1)) {
                    int exponent;
                    frexp(clipped, &exponent);
                    double fitted = ldexp(1, -exponent < 1021 ? -exponent : 1021), shrink = fitted / s->unit;
                    s->unit = fitted;
                    for (int64_t k = 0; k < n_arms; k++) loss_sums[k] *= shrink;
                    s->square_sum = s->square_sum * shrink * shrink;
                    s->square_sum_error = s->square_sum_error * shrink * shrink;
                    s->exploration_cost *= shrink;
                }
                double scaled = clipped * s->unit;
                double corrected = scaled * scaled - s->square_sum_error, raised = s->square_sum + corrected;
                s->square_sum_error = (raised - s->square_sum) - corrected;
                s->square_sum = raised;
                double estimate = scaled / larger(p[arm], SMALLEST_PROPENSITY);
                loss_sums[arm] += estimate;
                double scaled_clip = s->clip * s->unit;
                double eta = rate * sqrt(n / (n * scaled_clip * scaled_clip + s->square_sum));
                int64_t leader = log_barrier(loss_sums, n_arms, eta, p);

                s->exploration_cost += fabs(estimate * offsets[arm]);
                double rho = 1 / (2 * n * n + sqrt(2 * s->exploration_cost) / sqrt(s->unit));
                explore(p, n_arms, leader, rho, offsets);
            }
        }
    }
}
