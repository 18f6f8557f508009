import { readdirSync } from 'node:fs';
import { join } from 'node:path';

/** All files below a folder that pass `keep`, sorted; node_modules and dot folders are left out. */
export function listFiles(folder: string, keep: (path: string) => boolean): string[] {
  const found: string[] = [];
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.name === 'node_modules' || entry.name.startsWith('.')) continue;
    const path = join(folder, entry.name);
    if (entry.isDirectory()) found.push(...listFiles(path, keep));
    else if (keep(path)) found.push(path);
  }
  return found.sort();
}
