/** The mint of row G5b. */
export const BENCH_MINT = 'So11111111111111111111111111111111111111112';
export const TOKEN_QUESTION = JSON.stringify({ mintAccounts: [BENCH_MINT] });
