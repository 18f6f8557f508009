import type { Tenant } from './access.ts';
import { type ServiceToken, serviceToken } from './service.ts';

/** A JSON-RPC call that is about to be passed on to an upstream. */
export interface PassedCall {
  readonly method: string;
  readonly body: Buffer;
  /** Start and end of the raw `params` inside `body`, or null when absent. */
  readonly params: { readonly start: number; readonly end: number } | null;
  readonly tenant?: Tenant | undefined;
  readonly requestHeader?: ((name: string) => string | undefined) | undefined;
  readonly requestQuery?: ((name: string) => readonly string[]) | undefined;
}

/** Raw JSON of the result, or of the error object that an upstream gave. */
export type RoutedAnswer = { readonly resultText: string } | { readonly errorText: string };

export interface SendRoute {
  readonly headers?: Readonly<Record<string, string>>;
  /** Null: the call goes the usual way, and its answer has the headers. */
  readonly answer: Promise<RoutedAnswer> | null;
}

/** Knows which calls do not go to the upstreams of the main chain. */
export interface SendRoutes {
  /** Null when the call is none of its business. Throws RpcError. */
  route(call: PassedCall): SendRoute | null;
}

/** Offered by the plugin `sender`. */
export const sendRoutes: ServiceToken<SendRoutes> = serviceToken('sender.routes');
