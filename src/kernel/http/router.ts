import findMyWay from 'find-my-way';
import type { CompiledRoute } from './compile.ts';
import type { Target } from './target.ts';

/** What a path offers, by method. */
export interface PathEntry {
  readonly pattern: string;
  readonly methods: ReadonlyMap<string, CompiledRoute>;
  /** Value of the Allow header. */
  readonly allow: string;
}

export interface Match {
  readonly entry: PathEntry;
  readonly params: Readonly<Record<string, string>>;
}

export interface Router {
  match(target: Target): Match | null;
}

const NO_PARAMS: Readonly<Record<string, string>> = {};

/** Paths without parameters are looked up in a map; find-my-way serves the others. */
export function createRouter(routes: readonly CompiledRoute[], maxParamLength: number): Router {
  const fixed = new Map<string, Match>();
  const tree = findMyWay({ maxParamLength, caseSensitive: true, ignoreTrailingSlash: false });
  for (const entry of groupByPath(routes)) {
    if (entry.pattern.includes('/:')) tree.on('GET', entry.pattern, noop, entry);
    else fixed.set(entry.pattern, { entry, params: NO_PARAMS });
  }
  return {
    match: (target) => {
      const known = fixed.get(target.path);
      if (known !== undefined) return known;
      const found = tree.find('GET', target.routable);
      if (found === null) return null;
      const params = found.params as Record<string, string>;
      // The tree takes an empty segment for a parameter.
      for (const name in params) if (params[name] === '') return null;
      return { entry: found.store as PathEntry, params };
    },
  };
}

function noop(): void {}

function groupByPath(routes: readonly CompiledRoute[]): PathEntry[] {
  const paths = new Map<string, Map<string, CompiledRoute>>();
  for (const compiled of routes) {
    const { method, path } = compiled.route;
    const methods = paths.get(path) ?? new Map<string, CompiledRoute>();
    methods.set(method, compiled);
    // HEAD is answered wherever GET is.
    if (method === 'GET' && !methods.has('HEAD')) methods.set('HEAD', compiled);
    paths.set(path, methods);
  }
  return [...paths].map(([pattern, methods]) => ({
    pattern,
    methods,
    allow: [...methods.keys(), 'OPTIONS'].join(', '),
  }));
}
