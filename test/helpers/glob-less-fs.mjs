/**
 * Preload for programs that import `globSync` of `fs`, which Node before 22 does not have, and do not call it for what is asked of them:
 * `@modelcontextprotocol/conformance`.
 */
import fs from 'node:fs';
import { register } from 'node:module';

if (fs.globSync === undefined) {
  const stub = `export * from 'node:fs'; export { default } from 'node:fs';
    export const globSync = () => { throw new Error('this Node has no globSync'); };`;
  const hooks = `const stub = ${JSON.stringify(`data:text/javascript,${encodeURIComponent(stub)}`)};
    export const resolve = (name, context, next) => name === 'fs' && context.parentURL?.includes('/conformance/')
      ? { url: stub, format: 'module', shortCircuit: true } : next(name, context);`;
  register(`data:text/javascript,${encodeURIComponent(hooks)}`);
}
