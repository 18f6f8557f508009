/** Addresses of pages are in the hash: reload, back and links work, and the daemon serves one document. */
import { createContext } from 'preact';
import { useContext, useEffect, useState } from 'preact/hooks';
import type { Project, Who } from './api.ts';

export interface Place {
  readonly path: readonly string[];
  readonly query: URLSearchParams;
}

export type Query = Readonly<Record<string, string | null>>;

/** `#/a/b?c=d`; parameters that are null or empty are left out. */
export function href(path: readonly string[], query: Query = {}): string {
  const given = Object.entries(query).filter(
    (entry): entry is [string, string] => entry[1] !== null && entry[1] !== '',
  );
  const search = given.length === 0 ? '' : `?${new URLSearchParams(given)}`;
  return `#/${path.map(encodeURIComponent).join('/')}${search}`;
}

export function go(path: readonly string[], query: Query = {}): void {
  location.hash = href(path, query);
}

/** Null for a hash that is no address of a page, such as the target of a link within it. */
function readPlace(): Place | null {
  if (location.hash !== '' && !location.hash.startsWith('#/')) return null;
  const [path = '', search = ''] = location.hash.slice(2).split('?');
  return { path: path.split('/').filter(Boolean).map(decode), query: new URLSearchParams(search) };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function usePlace(): Place {
  const [place, setPlace] = useState(() => readPlace() ?? { path: [], query: new URLSearchParams() });
  useEffect(() => {
    const changed = () => setPlace((before) => readPlace() ?? before);
    addEventListener('hashchange', changed);
    return () => removeEventListener('hashchange', changed);
  }, []);
  return place;
}

export interface World {
  readonly who: Who;
  readonly projects: readonly Project[];
  readonly plans: readonly string[];
  readonly hasInterfaces: boolean;
  readonly hasWebhooks: boolean;
  readonly isLocalChain: boolean;
  /** By chain, `main` or `devnet`; null: not known yet. */
  readonly genesisHashes: Readonly<Record<string, string | null>>;
  /** The project whose pages are in the navigation; null: there is none. */
  readonly project: Project | null;
  reloadProjects(): Promise<void>;
}

export const WorldContext = createContext<World | null>(null);

/** Whether this session may change something; the daemon refuses it otherwise. */
export const useMayChange = (): boolean => {
  const who = useContext(WorldContext)?.who;
  return who?.role !== 'viewer' && who?.portal !== 'viewer';
};

export function useWorld(): World {
  const world = useContext(WorldContext);
  if (world === null) throw new Error('there is no session');
  return world;
}
