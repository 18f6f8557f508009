/** Coded errors of this plugin. */
export const PRICES_ERRORS = {
  PRICES_FILE_MISSING: 'prices.source names static, and prices.file is not set',
  PRICES_BAD_ANSWER: 'a price server answered with something that is no prices',
} as const;
