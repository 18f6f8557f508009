/** Coded errors of this plugin. */
export const DASHBOARD_ERRORS = {
  DASHBOARD_PAGES_MISSING: 'the files of the pages are not where the program was installed',
  DASHBOARD_TOKEN_CONFIGURED: 'operators log in with dashboard.operatorToken of the configuration: change it there',
} as const;
