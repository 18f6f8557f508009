/** What `build.mjs` makes of the package of icons. */
declare module 'icon-bodies' {
  /** The elements inside of the svg element, by the name of the icon: name and attributes of each. */
  export const bodies: Readonly<Record<string, readonly (readonly [string, Readonly<Record<string, string>>])[]>>;
}
