import { fileURLToPath } from 'node:url';

/** How node starts a module of the bench: `node ...execArgv path`. */
export interface BenchModule {
  readonly path: string;
  readonly execArgv: readonly string[];
}

/**
 * A module beside the one at `from`, given with its source name. The bench runs compiled, because a loader that keeps the names
 * of functions slows every closure; the tests of its rows run from the source.
 */
export function siblingModule(from: string, source: string): BenchModule {
  const isSource = from.endsWith('.ts');
  const name = isSource ? source : source.replace(/\.ts$/, '.js');
  return { path: fileURLToPath(new URL(name, from)), execArgv: isSource ? ['--import', 'tsx'] : [] };
}

/** The program as a host runs it: the built one, unless the bench itself runs from the source. */
export function programModule(from: string): BenchModule {
  const inSource = fileURLToPath(new URL('../../../src/cli/main.ts', from));
  if (from.endsWith('.ts')) return { path: inSource, execArgv: ['--import', 'tsx'] };
  return { path: fileURLToPath(new URL('../../../../../dist/src/cli/main.js', from)), execArgv: [] };
}
