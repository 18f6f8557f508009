import { manyLives } from './many-lives.ts';

manyLives(3);
