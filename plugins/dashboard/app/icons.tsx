import { bodies } from 'icon-bodies';
import { h } from 'preact';

export interface IconProps {
  /** Width and height, in pixels. */
  readonly size?: number;
  readonly 'aria-hidden'?: boolean;
  readonly class?: string;
}
export type Icon = (props: IconProps) => preact.JSX.Element;

/** An icon of the Lucide set by its name there; `build.mjs` takes in those that are named here. Whoever shows one says what it means. */
const icon =
  (name: string): Icon =>
  ({ size = 24, ...others }) =>
    h(
      'svg',
      { xmlns: 'http://www.w3.org/2000/svg', width: size, height: size, viewBox: '0 0 24 24', ...others },
      bodies[name]?.map(([element, attributes], at) => h(element, { key: at, ...attributes })),
    );

export const Activity = icon('activity');
export const Ban = icon('ban');
export const Bell = icon('bell');
export const Blocks = icon('blocks');
export const Braces = icon('braces');
export const Check = icon('check');
export const ChevronDown = icon('chevron-down');
export const CircleAlert = icon('circle-alert');
export const CircleCheck = icon('circle-check');
export const Copy = icon('copy');
export const Download = icon('download');
export const Ellipsis = icon('ellipsis');
export const ExternalLink = icon('external-link');
export const FlaskConical = icon('flask-conical');
export const FolderKanban = icon('folder-kanban');
export const GitFork = icon('git-fork');
export const HardDriveDownload = icon('hard-drive-download');
export const Image = icon('image');
export const Info = icon('info');
export const KeyRound = icon('key-round');
export const LayoutDashboard = icon('layout-dashboard');
export const ListTree = icon('list-tree');
export const LogOut = icon('log-out');
export const Menu = icon('menu');
export const Monitor = icon('monitor');
export const Moon = icon('moon');
export const Pencil = icon('pencil');
export const Plus = icon('plus');
export const Power = icon('power');
export const Puzzle = icon('puzzle');
export const RefreshCw = icon('refresh-cw');
export const RotateCw = icon('rotate-cw');
export const ScrollText = icon('scroll-text');
export const Scale = icon('scale');
export const Search = icon('search');
export const Send = icon('send');
export const Settings2 = icon('settings-2');
export const ShieldCheck = icon('shield-check');
export const Sun = icon('sun');
export const Trash2 = icon('trash-2');
export const TriangleAlert = icon('triangle-alert');
export const Upload = icon('upload');
export const Wallet = icon('wallet');
export const Webhook = icon('webhook');
export const X = icon('x');
