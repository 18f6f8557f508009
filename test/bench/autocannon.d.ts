/** The part of autocannon that the bench uses; the package ships no types. */
declare module 'autocannon' {
  interface Options {
    readonly url: string;
    readonly method?: string;
    readonly headers?: Record<string, string>;
    readonly body?: string;
    /** Told before each request is sent, what it would be; answers what it is. */
    readonly requests?: readonly { setupRequest(request: object): object }[];
    readonly connections?: number;
    /** Seconds. */
    readonly duration?: number;
  }
  interface Result {
    readonly requests: { readonly total: number; readonly average: number };
    /** Milliseconds. */
    readonly latency: { readonly p50: number; readonly p99: number };
    readonly duration: number;
    readonly non2xx: number;
    readonly errors: number;
    readonly statusCodeStats: Readonly<Record<string, { readonly count: number } | undefined>>;
  }
  export default function autocannon(options: Options): Promise<Result>;
}
