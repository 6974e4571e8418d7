package dev.boatswain.spark;
public final class PureTests { public static void main(String[] a) { System.out.println("pure parts: 0 tests passed"); } }
