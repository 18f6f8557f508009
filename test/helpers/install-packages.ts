/** `npm run packages`: installs the folders of packages that `npm ci` leaves out, or those named by their paths, unless they are there. */
import { FOLDERS, install } from './packages.ts';

const asked = process.argv.slice(2);
const unknown = asked.filter((path) => !FOLDERS.some((folder) => folder.path === path));
if (unknown.length > 0) {
  console.error(`no such folder: ${unknown.join(', ')}; there are ${FOLDERS.map(({ path }) => path).join(', ')}`);
  process.exit(64);
}
install(FOLDERS.filter(({ path }) => asked.length === 0 || asked.includes(path)));
