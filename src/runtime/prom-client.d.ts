/** The files of prom-client that threads load one by one; its own declarations cover only its index. */
declare module 'prom-client/lib/registry.js' {
  export { Registry as default } from 'prom-client';
}
declare module 'prom-client/lib/metrics/*.js' {
  import type { Registry } from 'prom-client';
  export default function watch(registry: Registry, config: object): void;
}
