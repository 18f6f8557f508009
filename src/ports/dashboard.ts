import { type ServiceToken, serviceToken } from './service.ts';

/** Creates the first operator login if none is configured. */
export interface OperatorBootstrap {
  /**
   * Creates and returns the login token of the operators. Only its hash is stored, so it cannot be read again. Null if a token is
   * configured or was created before.
   */
  ensureOperatorToken(): Promise<string | null>;
}

export const operatorBootstrap: ServiceToken<OperatorBootstrap> = serviceToken('dashboard.operator');
