/** Coded errors of this plugin. */
export const DASHBOARD_ERRORS = {
  DASHBOARD_PAGES_MISSING: 'the files of the pages are not where the program was installed',
} as const;
