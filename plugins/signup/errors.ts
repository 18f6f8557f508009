/** Coded errors of this plugin. */
export const SIGNUP_ERRORS = {
  SIGNUP_CONFIG: 'signup.treasury is no address, or no price is set, or the plan does not exist',
  SIGNUP_NO_ACCESS: 'the plugin needs the plugin access, which makes projects and keys',
} as const;

export type SignupErrorCode = keyof typeof SIGNUP_ERRORS;
