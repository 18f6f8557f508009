import { type ServiceToken, serviceToken } from './service.ts';

/** Lets operators in where nobody configured how. */
export interface OperatorBootstrap {
  /**
   * Makes the token that operators log in with, and gives it this once: it is stored as its hash. Null when one is configured or was made
   * before.
   */
  ensureOperatorToken(): Promise<string | null>;
}

export const operatorBootstrap: ServiceToken<OperatorBootstrap> = serviceToken('dashboard.operator');
