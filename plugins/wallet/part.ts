import type { HealthCheck, Route } from '../../src/plugin/plugin.ts';

/** What a folder of this plugin adds to it. */
export interface WalletPart {
  readonly routes: readonly Route[];
  readonly checks?: readonly HealthCheck[];
  start?(signal: AbortSignal): void | Promise<void>;
  stop?(): void | Promise<void>;
}

/** What labels say of an address. */
export interface Label {
  readonly name: string;
  readonly type: string;
}
