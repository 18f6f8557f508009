import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { findProjectRoot } from '../helpers/project-root.ts';

const root = findProjectRoot();
/** The second one has what npm leaves out under Node 20. */
const PLACES = ['', 'test/helpers/node24/'].map((folder) => root + folder);

interface LockEntry {
  readonly name?: string;
  readonly version: string;
  readonly os?: readonly string[];
  readonly cpu?: readonly string[];
  readonly libc?: readonly string[];
}
type Manifest = Readonly<Record<string, unknown>> & { readonly version: string };

/** A version of a package, and the bytes of its tarball. */
interface Offer {
  readonly manifest: Manifest;
  tarball(): Buffer;
}

export interface Registry {
  readonly url: string;
  /** What was asked for and is not here. */
  readonly missing: readonly string[];
  close(): void;
}

/**
 * A registry of npm on this machine, as if parhelion were published: it has that tarball, and everything that package-lock.json names, made
 * from what is installed here. What is for other platforms has a manifest and no tarball.
 */
export async function startRegistry(tarball: string): Promise<Registry> {
  const offers = offersOfLock();
  const own = spawnSync('tar', ['-xzOf', tarball, 'package/package.json'], { encoding: 'utf8' });
  const manifest = JSON.parse(own.stdout) as Manifest;
  offers.set('parhelion', [{ manifest, tarball: () => readFileSync(tarball) }]);
  const missing: string[] = [];
  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url ?? '/').slice(1);
    const [name, version] = path.replace(/\.tgz$/, '').split('/-/') as [string, string?];
    const found = offers.get(name);
    if (found === undefined) {
      // Not a package: npm asks for known vulnerabilities.
      if (!name.startsWith('-/')) missing.push(path);
      return answer(response, 404, '{}');
    }
    const offer = found.find((one) => one.manifest.version === version);
    if (offer !== undefined) return answer(response, 200, offer.tarball());
    const versions = found.map((one) => {
      const dist = { tarball: `${url}${encodeURIComponent(name)}/-/${one.manifest.version}.tgz` };
      return [one.manifest.version, { ...one.manifest, name, dist }];
    });
    const document = {
      name,
      'dist-tags': { latest: found.at(-1)!.manifest.version },
      versions: Object.fromEntries(versions),
    };
    answer(response, 200, JSON.stringify(document));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  return {
    url,
    missing,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

function answer(response: ServerResponse, status: number, body: string | Buffer): void {
  response.writeHead(status, {
    'content-type': typeof body === 'string' ? 'application/json' : 'application/octet-stream',
  });
  response.end(body);
}

function offersOfLock(): Map<string, Offer[]> {
  const offers = new Map<string, Offer[]>();
  for (const place of PLACES) {
    const { packages } = JSON.parse(readFileSync(`${place}package-lock.json`, 'utf8')) as {
      packages: Readonly<Record<string, LockEntry>>;
    };
    for (const [path, entry] of Object.entries(packages)) {
      if (path === '') continue;
      const name = entry.name ?? path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
      const known = offers.get(name) ?? [];
      const folder = PLACES.map((one) => join(one, path)).find((one) => existsSync(join(one, 'package.json')));
      const offer =
        folder === undefined ? { manifest: entry as Manifest, tarball: () => Buffer.alloc(0) } : installed(folder);
      if (!known.some(({ manifest }) => manifest.version === offer.manifest.version))
        offers.set(name, [...known, offer]);
    }
  }
  return offers;
}

function installed(folder: string): Offer {
  const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest;
  return {
    manifest,
    tarball() {
      const args = ['-czf', '-', '--exclude=./node_modules', '--transform=s,^\\.,package,', '-C', folder, '.'];
      return spawnSync('tar', args, { maxBuffer: 2 ** 28 }).stdout;
    },
  };
}
