import type { Route, RpcMethod } from '../plugin.ts';

/** What the interface documents are written from. */
export interface DocumentOptions {
  readonly routes: readonly Route[];
  readonly methods: readonly RpcMethod[];
  readonly version: string;
  /** Default: that of the API. */
  readonly description?: string;
}
