/** Coded errors of this plugin. */
export const ACCESS_ERRORS = {
  ACCESS_UNKNOWN_PLAN: 'the plan does not exist',
  ACCESS_UNKNOWN_PROJECT: 'there is no project with this id',
  ACCESS_UNKNOWN_KEY: 'there is no key with this id',
  ACCESS_BAD_KEY: 'a key has 1 to 256 characters a-z, A-Z, 0-9, "-", "_" and "."',
  ACCESS_BAD_EXPIRY:
    'an expiry is a time to come: days such as 90d, or a date such as 2030-01-31 or 2030-01-31T12:00:00Z',
  ACCESS_BAD_NAME: 'a name has 1 to 128 characters',
} as const;
